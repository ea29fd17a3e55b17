#include "runtime/config_field_table.h"

namespace longship::runtime::field_table {

std::vector<Field> eval_fields() {
  return {
      field("eval.every_epochs", LONGSHIP_SETTING(eval.every_epochs),
            {.fallback = "1",
             .minimum = 0,
             .maximum = kMany,
             .unit = "epochs",
             .meaning = "How often the validation part is evaluated; 0: not by epochs."}),
      field("eval.every_steps", LONGSHIP_SETTING(eval.every_steps),
            {.fallback = "0",
             .minimum = 0,
             .maximum = kManySteps,
             .unit = "steps",
             .meaning = "How often, counted in steps instead of epochs; 0: not by steps.",
             .synonyms = {"eval_interval"}}),
      field("eval.metric", LONGSHIP_SETTING(eval.metric),
            {.fallback = "mse",
             .choices = {"mse", "mae"},
             .meaning = "What decides on the best checkpoint, on normalised values.",
             .synonyms = {"monitor"}}),
      field("eval.patience", LONGSHIP_SETTING(eval.patience),
            {.fallback = "0",
             .minimum = 0,
             .maximum = kMany,
             .unit = "evaluations",
             .meaning = "Evaluations without a better one that end the run; 0: no early stop.",
             .synonyms = {"early_stopping"}}),
      field("eval.max_windows", LONGSHIP_SETTING(eval.max_windows),
            {.fallback = "0",
             .minimum = 0,
             .maximum = kManySteps,
             .unit = "windows",
             .meaning = "Evaluate an even subset of so many windows; 0: all."}),
      field("eval.batch_size", LONGSHIP_SETTING(eval.batch_size),
            {.fallback = "256",
             .minimum = 1,
             .maximum = kMany,
             .unit = "windows",
             .meaning = "Windows of one forward pass of a rank; no effect on results."}),
      field("eval.season", LONGSHIP_SETTING(eval.season),
            {.fallback = "auto",
             .minimum = 1,
             .maximum = kMany,
             .automatic = true,
             .unit = "rows",
             .meaning = "Period of the seasonal naive forecast; auto: from the data's time step.",
             .synonyms = {"seasonality", "period"}}),
  };
}

std::vector<Field> comm_fields() {
  return {
      field("comm.backend", LONGSHIP_SETTING(comm.backend),
            {.fallback = "auto",
             .choices = {"auto", "nccl", "mpi"},
             .meaning = "Who reduces gradients; auto: NCCL on GPUs, MPI on CPUs."}),
      field("comm.wire", LONGSHIP_SETTING(comm.wire),
            {.fallback = "fp16",
             .choices = {"fp32", "fp16", "bf16"},
             .meaning = "Number format of gradients on the wire.",
             .synonyms = {"compression"}}),
      field("comm.bucket_mib", LONGSHIP_SETTING(comm.bucket_mib),
            {.fallback = "auto",
             .minimum = 0.001,
             .maximum = 16384,
             .automatic = true,
             .unit = "MiB",
             .meaning = "Size of a gradient bucket in FP32; auto: by latency and bandwidth of the "
                        "communication, measured at the start.",
             .synonyms = {"bucket_cap_mb"}}),
      field("comm.timeout_s", LONGSHIP_SETTING(comm.timeout_s),
            {.fallback = "600",
             .minimum = 1,
             .maximum = 604800,
             .unit = "s",
             .meaning = "Patience with a rank that does not come to a collective.",
             .synonyms = {"timeout"}}),
  };
}

std::vector<Field> checkpoint_fields() {
  return {
      field("checkpoint.every_minutes", LONGSHIP_SETTING(checkpoint.every_minutes),
            {.fallback = "10",
             .minimum = 0,
             .maximum = 1e6,
             .unit = "minutes",
             .meaning = "Time between checkpoints; 0: none by time."}),
      field("checkpoint.every_steps", LONGSHIP_SETTING(checkpoint.every_steps),
            {.fallback = "0",
             .minimum = 0,
             .maximum = kManySteps,
             .unit = "steps",
             .meaning = "Steps between checkpoints; given alone, turns every_minutes off.",
             .synonyms = {"save_interval", "save_steps"}}),
      field("checkpoint.keep", LONGSHIP_SETTING(checkpoint.keep),
            {.fallback = "3",
             .minimum = 1,
             .maximum = kMany,
             .unit = "checkpoints",
             .meaning = "Newest checkpoints that are kept; the best is kept besides.",
             .synonyms = {"save_top_k", "save_total_limit"}}),
      field("checkpoint.at_start", LONGSHIP_SETTING(checkpoint.at_start),
            {.fallback = "false", .meaning = "Also save before the first step."}),
  };
}

std::vector<Field> log_fields() {
  return {
      field("log.level", LONGSHIP_SETTING(log.level),
            {.fallback = "info",
             .choices = {"trace", "debug", "info", "warning", "error"},
             .meaning = "Least severity that is logged.",
             .synonyms = {"verbosity", "verbose"}}),
      field("log.every_steps", LONGSHIP_SETTING(log.every_steps),
            {.fallback = "auto",
             .minimum = 1,
             .maximum = kManySteps,
             .automatic = true,
             .unit = "steps",
             .meaning = "Steps between two training records in metrics.jsonl.",
             .synonyms = {"log_interval", "logging_steps"}}),
      field("log.sample_order", LONGSHIP_SETTING(log.sample_order),
            {.fallback = "false",
             .meaning = "Write the window indices of every micro-batch, to check the order."}),
  };
}

}  // namespace longship::runtime::field_table
