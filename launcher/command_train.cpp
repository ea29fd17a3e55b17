#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/cuda/CUDAFunctions.h>
#include <torch/version.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "comm/text_collectives.h"
#include "launcher/command.h"
#include "launcher/dry_run.h"
#include "launcher/parallel_command.h"
#include "launcher/train_options.h"
#include "launcher/training_setup.h"
#include "runtime/agreement.h"
#include "runtime/checkpoint_files.h"
#include "runtime/config_dump.h"
#include "runtime/config_load.h"
#include "runtime/dataset_setup.h"
#include "runtime/device_memory.h"
#include "runtime/manifest.h"
#include "runtime/model_setup.h"
#include "runtime/run_plan.h"
#include "runtime/stop_signals.h"
#include "runtime/trainer.h"
#include "runtime/trainer_parts.h"
#include "slurm/job_environment.h"

namespace longship::launcher {
namespace {

namespace fs = std::filesystem;
using runtime::Config;

// run.json: what `auto` became, and what the run ran on.
nlohmann::json run_facts(const Config& config, const runtime::Context& context,
                         const std::vector<std::string>& hosts, const std::string& devices,
                         const runtime::BatchPlan& batches, const data::Dataset& dataset,
                         const std::string& precision, const TrainOptions& options,
                         const Session& session, int64_t first_step,
                         const std::string& resumed_from, const std::string& implementation) {
  return {
      {"name", config.run.name},
      {"seed", config.run.seed},
      {"started", runtime::utc_now()},
      {"first_step", first_step},
      {"resumed_from", resumed_from},
      {"command_line",
       {{"config", options.config_path}, {"set", options.overrides}, {"resume", options.resume}}},
      {"resolved",
       {{"micro_batch_size", batches.micro_batch_size},
        {"micro_batches", batches.micro_batches},
        {"total_steps", batches.total_steps},
        {"precision", precision},
        {"implementation", implementation},
        {"backend", context.gradients.backend()}}},
      {"ranks", context.size()},
      {"hosts", hosts},
      {"devices", devices},
      {"data",
       {{"fingerprint", runtime::hash_text(dataset.fingerprint())},
        {"series", dataset.series_count()},
        {"rows", dataset.rows()},
        {"train_windows", dataset.windows(data::Split::kTrain)}}},
      {"versions",
       {{"longship", LONGSHIP_VERSION},
        {"libtorch", TORCH_VERSION},
        {"mpi", session.mpi ? session.mpi->library_version() : "not used"}}}};
}

// A run whose train.epochs or train.steps was lowered may be past its end.
std::string progress_of(int64_t step, int64_t total_steps) {
  return "step " + std::to_string(step) + (step > total_steps ? ", past the " : " of ") +
         std::to_string(total_steps) + (step > total_steps ? " asked for" : "");
}

void advise(const runtime::Context& context, const Config& config, const data::Dataset& dataset,
            const models::Forecaster& model, runtime::PrecisionMode precision,
            const TrainOptions& options) {
  if (precision != runtime::PrecisionMode::kFp32 && context.device.is_cuda()) {
    for (const std::string& line : model.advice()) {
      context.log->warn("{}", line);
    }
  }
  for (const std::string& line : runtime::plan_advice(config, dataset)) {
    context.log->warn("{}", line);
  }
  const int gpus = context.device.is_cuda() ? c10::cuda::device_count() : 0;
  if (context.size() == 1 && gpus > 1) {
    context.log->warn(
        "this run uses 1 of {} visible GPUs; `longship launch -n {} -- train {}` uses "
        "all of them",
        gpus, gpus, options.config_path);
  }
}

// The parts of a training in the order in which they come to be.
int train(const TrainOptions& options, Config config, Session& session) {
  const std::chrono::seconds timeout(config.comm.timeout_s);
  const bool automatic_name = config.run.name.empty();
  RunPlace place = open_run_directory(options, config, session);
  const bool leader = session.host->rank() == 0;

  std::shared_ptr<runtime::Console> console;
  std::shared_ptr<spdlog::logger> log;
  runtime::collectively(*session.host, session.host_name, [&] {
    console = leader ? runtime::Console::standard_error() : nullptr;
    log = runtime::make_logger(config.log.level, console,
                               runtime::rank_log_path(place.root, session.host->rank()));
  });
  if (leader && !place.directory->note().empty()) {
    log->warn("{}", place.directory->note());
  }
  connect_devices(session, config.comm.backend, timeout);
  runtime::Context context{*session.host,  *session.votes,    *session.gradients,
                           session.device, session.host_name, log};

  std::shared_ptr<const data::Dataset> dataset;
  std::shared_ptr<models::Forecaster> model;
  runtime::PrecisionMode precision = runtime::PrecisionMode::kFp32;
  std::exception_ptr precision_error;
  try {
    precision = runtime::resolve_precision(config.precision.mode, context.device, context.host);
  } catch (const runtime::Error&) {
    precision_error = std::current_exception();
  }
  runtime::agree(context.host, context.host_name, precision_error);
  runtime::apply_precision(precision, context.device);
  runtime::collectively(context.host, context.host_name, [&] {
    dataset = data::Dataset::open(runtime::dataset_spec(config));
    model = runtime::make_model(config);
    runtime::cap_device_memory(config.train.memory_fraction, context.device);
    try {
      model->to(context.device);
      model->on_device();
    } catch (const c10::OutOfMemoryError&) {
      throw runtime::ConfigError(
          "the device's memory does not hold the model: make it smaller (the keys below model:), "
          "or raise train.memory_fraction");
    }
  });
  agree_on_inputs(config, dataset->fingerprint(), context.host, context.host_name);
  if (leader) {
    for (const std::string& note : dataset->notes()) {
      log->info("{}", note);
    }
  }

  runtime::Checkpointer checkpointer(
      (fs::path(place.root) / "checkpoints").string(), context.host, config.checkpoint.keep,
      {.notice = [&log](const std::string& text) { log->warn("{}", text); }});
  checkpointer.probe();
  const std::optional<runtime::LoadedCheckpoint> checkpoint =
      find_checkpoint(options, config, place, checkpointer, context);
  runtime::BatchPlan batches;
  const int64_t micro_batch_size = settle_micro_batch_size(
      config, checkpoint, *model,
      runtime::bytes_beside_micro_batches(config, *model, *dataset, context.size(), context.device),
      context);
  runtime::collectively(context.host, context.host_name, [&] {
    batches = runtime::make_batch_plan(config.train, micro_batch_size,
                                       dataset->windows(data::Split::kTrain), context.rank(),
                                       context.size());
  });
  runtime::TrainerParts parts{.context = context,
                              .config = runtime::move_config(config, place.root),
                              .dataset = dataset,
                              .model = model,
                              .plan = batches,
                              .precision = precision,
                              .checkpointer = &checkpointer,
                              .order_log = {}};
  parts.run_directory = place.directory.get();
  parts.layout = layout_to_keep(checkpoint, config, context.size());
  if (checkpoint) parts.implementation = runtime::stored_implementation(checkpoint->state);
  if (config.log.sample_order) {
    char name[64];
    std::snprintf(name, sizeof name, "order-rank-%05d.jsonl", context.rank());
    parts.order_log = (fs::path(place.root) / "logs" / name).string();
  }

  std::unique_ptr<runtime::JsonLinesSink> metrics;
  std::unique_ptr<runtime::Progress> progress;
  const int64_t first_step = checkpoint ? checkpoint->state.step : 0;
  const std::vector<std::string> hosts = comm::all_gather_text(context.host, context.host_name);
  const std::string devices = describe_devices(context);
  runtime::Trainer trainer(parts);
  const auto write_records = [&] {
    if (leader) {
      place.directory->write_config(config);
      place.directory->write_run(run_facts(
          config, context, hosts, devices, batches, *dataset, runtime::to_string(precision),
          options, session, first_step, place.resumed_from, trainer.implementation()));
    }
  };
  if (checkpoint) {
    runtime::collectively(context.host, context.host_name,
                          [&] { trainer.restore(checkpoint->state); });
  }
  if (leader) {
    log->info("run {}", place.root);
    const runtime::RunPlan plan = runtime::make_run_plan(
        {config, *dataset, *model, batches, trainer.reducer(), context.size(), devices,
         runtime::to_string(precision), context.gradients.backend()});
    for (const std::string& line : plan.lines()) {
      log->info("  {}", line);
    }
    advise(context, config, *dataset, *model, precision, options);
    for (const std::string& change : place.changes) {
      log->info("changed since: {}", change);
    }
    if (checkpoint) {
      log->info("going on from {} ({})", checkpoint->path,
                progress_of(first_step, batches.total_steps));
    } else if (place.existed) {
      log->warn("the run in {} has no checkpoint yet: starting at step 0", place.root);
    } else {
      log->info("a new run, starting at step 0");
      const auto job = slurm::job_environment();
      if (automatic_name && job && job->restarts > 0) {
        log->warn(
            "this job was started before and begins a new run all the same, since run.name is "
            "auto: "
            "give the run a name for the job to go on with it");
      }
      if (automatic_name) {
        log->info("run.name is auto: to go on with this run later, start it with --set run.name={}",
                  config.run.name);
      }
    }
  }
  if (trainer.finished()) {
    if (leader) {
      log->info(
          "the run is finished ({}): nothing to do; raise train.epochs or train.steps to go on",
          progress_of(trainer.step(), batches.total_steps));
    }
    return static_cast<int>(runtime::ExitCode::kDone);
  }
  // Only now is it sure that training goes on: a refused or finished run keeps its records, and a
  // new one leaves none.
  runtime::collectively(context.host, context.host_name, [&] {
    if (!leader) {
      return;
    }
    write_records();
    if (checkpoint) {
      checkpointer.go_back_to(checkpoint->path, first_step);
    }
    metrics = std::make_unique<runtime::JsonLinesSink>(
        place.directory->metrics_path(),
        checkpoint ? std::optional<int64_t>(first_step) : std::nullopt);
    progress = std::make_unique<runtime::Progress>(
        console, log,
        runtime::Progress::Options{.first_step = first_step, .total_steps = batches.total_steps});
    trainer.report_to({metrics.get()}, progress.get());
  });
  const runtime::ExitCode code = trainer.run();
  if (leader) {
    progress->finish();
    if (code == runtime::ExitCode::kDone) {
      log->info("done: {} steps; metrics in {}, checkpoints in {}", trainer.step(),
                place.directory->metrics_path(), place.directory->checkpoints_path());
    }
  }
  return static_cast<int>(code);
}

int run(const std::vector<std::string>& arguments) {
  const std::optional<TrainOptions> parsed = parse_train_options(arguments);
  if (!parsed) return 0;
  const TrainOptions& options = *parsed;
  if (options.dry_run) return dry_run(options);

  // A signal that comes while the ranks start ends the run at its first step, in order.
  const runtime::StopSignals signals;
  // The run file tells how long collectives may take, so it is read before MPI starts; what is
  // wrong with it is told once, by all ranks together.
  Config config;
  std::exception_ptr error;
  try {
    config = runtime::load_config(options.config_path, options.overrides);
  } catch (...) {
    error = std::current_exception();
  }
  constexpr std::chrono::seconds kTimeoutWithoutConfig(60);
  return run_parallel(error ? kTimeoutWithoutConfig : std::chrono::seconds(config.comm.timeout_s),
                      [&](Session& session) {
                        runtime::agree(*session.host, session.host_name, error);
                        return train(options, config, session);
                      });
}

}  // namespace

Command train_command() {
  return {"train", "train a model, or go on with a run", run};
}

}  // namespace longship::launcher
