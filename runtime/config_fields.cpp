#include "runtime/config_fields.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <type_traits>
#include <utility>

#include "runtime/config_numbers.h"

namespace longship::runtime {
namespace {

constexpr double kMany = 2147483647;  // of things that are counted or are a tensor's extent
constexpr double kManySteps = 9007199254740992;
constexpr double kLargeNumber = 1e30;

template <typename T>
FieldType type_of() {
  return static_cast<FieldType>(FieldValue(T{}).index());
}

// `access` returns a reference to the setting within a Config, const or not.
template <typename Access>
Field field(std::string key, Access access, FieldRule rule) {
  using Value = std::remove_reference_t<decltype(access(std::declval<Config&>()))>;
  return Field{
      .key = std::move(key),
      .type = type_of<Value>(),
      .rule = std::move(rule),
      .set = [access](Config& c, const FieldValue& v) { access(c) = std::get<Value>(v); },
      .get = [access](const Config& c) { return FieldValue(access(c)); },
  };
}

#define LONGSHIP_SETTING(path) \
  [](auto& c) -> auto& {       \
    return c.path;             \
  }

const std::array<std::pair<const char*, data::MissingPolicy>, 4> kMissingPolicies = {{
    {"error", data::MissingPolicy::kError},
    {"forward_fill", data::MissingPolicy::kForwardFill},
    {"interpolate", data::MissingPolicy::kInterpolate},
    {"drop", data::MissingPolicy::kDrop},
}};

Field missing_field(FieldRule rule) {
  Field result;
  result.key = "data.missing";
  result.type = FieldType::kText;
  result.rule = std::move(rule);
  result.set = [](Config& config, const FieldValue& value) {
    for (const auto& [name, policy] : kMissingPolicies) {
      if (std::get<std::string>(value) == name) config.data.missing = policy;
    }
  };
  result.get = [](const Config& config) -> FieldValue {
    for (const auto& [name, policy] : kMissingPolicies) {
      if (config.data.missing == policy) return std::string(name);
    }
    return std::string();
  };
  return result;
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const auto& [name, model] : models::registered_models()) names.push_back(name);
  return names;
}

void append(std::vector<Field>& all, std::vector<Field> more) {
  std::move(more.begin(), more.end(), std::back_inserter(all));
}

std::vector<Field> run_fields() {
  return {
      field("run.name", LONGSHIP_SETTING(run.name),
            {.fallback = "auto",
             .automatic = true,
             .meaning = "Name of the run directory; auto: file name and start time in UTC."}),
      field("run.directory", LONGSHIP_SETTING(run.directory),
            {.fallback = "runs",
             .meaning = "Folder of run directories, relative to the current folder.",
             .synonyms = {"output", "output_dir", "out"}}),
      field("run.seed", LONGSHIP_SETTING(run.seed),
            {.fallback = "42",
             .minimum = 0,
             .meaning = "Seed of initialisation, order and dropout.",
             .change = Change::kFixed,
             .synonyms = {"random_seed"}}),
  };
}

std::vector<Field> data_fields() {
  return {
      field("data.path", LONGSHIP_SETTING(data.path),
            {.meaning = "Series file, list, glob or folder; relative to the run file.",
             .synonyms = {"file", "files", "paths"}}),
      field("data.dataset", LONGSHIP_SETTING(data.dataset),
            {.fallback = "auto",
             .automatic = true,
             .meaning = "Path of the dataset in other HDF5 files; auto: the only candidate."}),
      field("data.inputs", LONGSHIP_SETTING(data.inputs),
            {.meaning = "Columns that the model reads.",
             .change = Change::kFixed,
             .synonyms = {"features", "columns"}}),
      field("data.targets", LONGSHIP_SETTING(data.targets),
            {.meaning = "Columns that the model forecasts.",
             .change = Change::kFixed,
             .synonyms = {"labels", "outputs"}}),
      field("data.window", LONGSHIP_SETTING(data.window),
            {.minimum = 1,
             .maximum = kMany,
             .unit = "rows",
             .meaning = "How far the model looks back.",
             .change = Change::kFixed,
             .synonyms = {"lookback", "context", "context_length", "seq_len", "window_size"}}),
      field("data.horizon", LONGSHIP_SETTING(data.horizon),
            {.fallback = "1",
             .minimum = 1,
             .maximum = kMany,
             .unit = "rows",
             .meaning = "How far the model forecasts.",
             .change = Change::kFixed,
             .synonyms = {"prediction_length", "pred_len", "steps_ahead"}}),
      field("data.stride", LONGSHIP_SETTING(data.stride),
            {.fallback = "1",
             .minimum = 1,
             .maximum = kMany,
             .unit = "rows",
             .meaning = "Distance of the starts of neighbouring windows.",
             .change = Change::kFixed}),
      field("data.split", LONGSHIP_SETTING(data.split),
            {.fallback = "[0.7, 0.1, 0.2]",
             .meaning = "Train, validation and test part of each series, in time order.",
             .change = Change::kFixed}),
      field("data.normalize", LONGSHIP_SETTING(data.normalize),
            {.fallback = "standard",
             .choices = {"standard", "minmax", "none"},
             .meaning = "Scaling of each column, fitted on the training part.",
             .change = Change::kFixed,
             .synonyms = {"scaler", "normalization"}}),
      missing_field({.fallback = "error",
                     .choices = {"error", "forward_fill", "interpolate", "drop"},
                     .meaning = "What is done with missing values.",
                     .change = Change::kFixed,
                     .synonyms = {"fillna", "nan"}}),
      field("data.shuffle", LONGSHIP_SETTING(data.shuffle),
            {.fallback = "true",
             .meaning = "Windows are trained in a new random order each epoch.",
             .change = Change::kFixed}),
  };
}

std::vector<Field> train_fields() {
  return {
      field("train.epochs", LONGSHIP_SETTING(train.epochs),
            {.fallback = "10",
             .minimum = 0,
             .maximum = kMany,
             .unit = "epochs",
             .meaning = "Length of the training; 0 where train.steps is given.",
             .synonyms = {"num_epochs", "max_epochs", "n_epochs"}}),
      field("train.steps", LONGSHIP_SETTING(train.steps),
            {.fallback = "0",
             .minimum = 0,
             .maximum = kManySteps,
             .unit = "steps",
             .meaning = "Length of the training instead of train.epochs; 0: from the epochs.",
             .synonyms = {"max_steps", "iterations", "num_steps"}}),
      field("train.batch_size", LONGSHIP_SETTING(train.batch_size),
            {.fallback = "256",
             .minimum = 1,
             .maximum = kMany,
             .unit = "windows",
             .meaning = "Windows of one optimizer step over all ranks.",
             .change = Change::kFixed,
             .synonyms = {"batch", "global_batch_size"}}),
      field("train.micro_batch_size", LONGSHIP_SETTING(train.micro_batch_size),
            {.fallback = "auto",
             .minimum = 1,
             .maximum = kMany,
             .automatic = true,
             .unit = "windows",
             .meaning = "Windows of one forward pass; divides train.batch_size.",
             .change = Change::kFixed,
             .synonyms = {"per_device_batch_size", "per_gpu_batch_size"}}),
      field("train.loss", LONGSHIP_SETTING(train.loss),
            {.fallback = "mse",
             .choices = {"mse", "mae", "huber", "quantile"},
             .meaning = "What is minimised, on normalised values.",
             .change = Change::kFixed,
             .synonyms = {"criterion", "objective"}}),
      field("train.huber_delta", LONGSHIP_SETTING(train.huber_delta),
            {.fallback = "1",
             .minimum = 0,
             .maximum = kLargeNumber,
             .open = true,
             .meaning = "Error at which the Huber loss turns linear, in normalised units.",
             .change = Change::kFixed,
             .only_with = "train.loss",
             .only_values = {"huber"}}),
      field("train.quantiles", LONGSHIP_SETTING(train.quantiles),
            {.fallback = "[]",
             .minimum = 0,
             .maximum = 1,
             .open = true,
             .meaning = "Levels of the quantile loss, ascending, such as [0.1, 0.5, 0.9].",
             .change = Change::kFixed,
             .only_with = "train.loss",
             .only_values = {"quantile"}}),
      field("train.clip_norm", LONGSHIP_SETTING(train.clip_norm),
            {.fallback = "0",
             .minimum = 0,
             .maximum = kLargeNumber,
             .meaning = "Largest global norm of the gradient; 0: no clipping.",
             .synonyms = {"gradient_clip_val", "max_grad_norm", "grad_clip"}}),
      field("train.max_skipped", LONGSHIP_SETTING(train.max_skipped),
            {.fallback = "25",
             .minimum = 1,
             .maximum = kMany,
             .unit = "steps",
             .meaning = "Skipped or non-finite steps in a row after which the run has diverged."}),
  };
}

std::vector<Field> optimizer_fields() {
  return {
      field("optimizer.name", LONGSHIP_SETTING(optimizer.name),
            {.fallback = "adamw",
             .choices = {"adamw", "sgd"},
             .meaning = "The optimizer; weight decay of adamw is decoupled.",
             .change = Change::kFixed}),
      field("optimizer.lr", LONGSHIP_SETTING(optimizer.lr),
            {.fallback = "1e-3",
             .minimum = 0,
             .maximum = kLargeNumber,
             .open = true,
             .meaning = "Learning rate, the highest of the schedule.",
             .synonyms = {"learning_rate"}}),
      field("optimizer.weight_decay", LONGSHIP_SETTING(optimizer.weight_decay),
            {.fallback = "0.01",
             .minimum = 0,
             .maximum = kLargeNumber,
             .meaning = "Strength of the weight decay.",
             .synonyms = {"wd"}}),
      field("optimizer.decay_biases", LONGSHIP_SETTING(optimizer.decay_biases),
            {.fallback = "true", .meaning = "Weight decay also acts on biases."}),
      field("optimizer.beta1", LONGSHIP_SETTING(optimizer.beta1),
            {.fallback = "0.9",
             .minimum = 0,
             .maximum = 0.999999999,
             .meaning = "Decay of the first moment.",
             .only_with = "optimizer.name",
             .only_values = {"adamw"},
             .synonyms = {"betas"}}),
      field("optimizer.beta2", LONGSHIP_SETTING(optimizer.beta2),
            {.fallback = "0.999",
             .minimum = 0,
             .maximum = 0.999999999,
             .meaning = "Decay of the second moment.",
             .only_with = "optimizer.name",
             .only_values = {"adamw"},
             .synonyms = {"betas"}}),
      field("optimizer.eps", LONGSHIP_SETTING(optimizer.eps),
            {.fallback = "1e-8",
             .minimum = 0,
             .maximum = 1,
             .open = true,
             .meaning = "Added to the root of the second moment.",
             .only_with = "optimizer.name",
             .only_values = {"adamw"},
             .synonyms = {"epsilon"}}),
      field("optimizer.momentum", LONGSHIP_SETTING(optimizer.momentum),
            {.fallback = "0.9",
             .minimum = 0,
             .maximum = 0.999999999,
             .meaning = "Momentum of sgd; 0: none.",
             .only_with = "optimizer.name",
             .only_values = {"sgd"}}),
  };
}

std::vector<Field> schedule_fields() {
  return {
      field("schedule.name", LONGSHIP_SETTING(schedule.name),
            {.fallback = "constant",
             .choices = {"constant", "cosine", "linear", "step"},
             .meaning = "Course of the learning rate after the warm-up.",
             .synonyms = {"scheduler", "lr_scheduler"}}),
      field("schedule.warmup_steps", LONGSHIP_SETTING(schedule.warmup_steps),
            {.fallback = "0",
             .minimum = 0,
             .maximum = kManySteps,
             .unit = "steps",
             .meaning = "Steps in which the learning rate rises linearly from 0.",
             .synonyms = {"warmup", "num_warmup_steps"}}),
      field("schedule.min_lr", LONGSHIP_SETTING(schedule.min_lr),
            {.fallback = "0",
             .minimum = 0,
             .maximum = kLargeNumber,
             .meaning = "Learning rate at the end of the schedule.",
             .only_with = "schedule.name",
             .only_values = {"cosine", "linear"},
             .synonyms = {"eta_min"}}),
      field("schedule.step_size", LONGSHIP_SETTING(schedule.step_size),
            {.fallback = "0",
             .minimum = 0,
             .maximum = kManySteps,
             .unit = "steps",
             .meaning = "Steps between two reductions of the learning rate.",
             .only_with = "schedule.name",
             .only_values = {"step"}}),
      field("schedule.gamma", LONGSHIP_SETTING(schedule.gamma),
            {.fallback = "0.1",
             .minimum = 0,
             .maximum = 1,
             .open = true,
             .meaning = "Factor of each reduction.",
             .only_with = "schedule.name",
             .only_values = {"step"}}),
  };
}

std::vector<Field> precision_fields() {
  return {
      field("precision.mode", LONGSHIP_SETTING(precision.mode),
            {.fallback = "auto",
             .choices = {"auto", "fp32", "tf32", "bf16", "fp16"},
             .meaning = "Arithmetic of forward and backward; auto: fp32 on CPUs.",
             .synonyms = {"amp", "dtype"}}),
      field("precision.init_scale", LONGSHIP_SETTING(precision.init_scale),
            {.fallback = "65536",
             .minimum = 1,
             .maximum = 16777216,
             .meaning = "First loss scale of fp16.",
             .only_with = "precision.mode",
             .only_values = {"auto", "fp16"}}),
      field("precision.growth_interval", LONGSHIP_SETTING(precision.growth_interval),
            {.fallback = "2000",
             .minimum = 1,
             .maximum = kMany,
             .unit = "steps",
             .meaning = "Good steps after which the loss scale doubles.",
             .only_with = "precision.mode",
             .only_values = {"auto", "fp16"}}),
  };
}

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
             .meaning = "Size of a gradient bucket in FP32.",
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

#undef LONGSHIP_SETTING

std::vector<Field> make_fields() {
  std::vector<Field> all = run_fields();
  append(all, data_fields());
  all.push_back(field("model.name", [](auto& c) -> auto& { return c.model.name; },
                      {.choices = model_names(),
                       .meaning = "The model; its options stand beside the name.",
                       .change = Change::kFixed}));
  append(all, train_fields());
  append(all, optimizer_fields());
  append(all, schedule_fields());
  append(all, precision_fields());
  append(all, eval_fields());
  append(all, comm_fields());
  append(all, checkpoint_fields());
  append(all, log_fields());
  return all;
}

std::string option_text(const models::OptionValue& value) {
  if (const auto* integer = std::get_if<int64_t>(&value)) return std::to_string(*integer);
  if (const auto* number = std::get_if<double>(&value)) return format_number(*number);
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  return std::get<std::string>(value);
}

FieldValue as_field_value(const models::OptionValue& value) {
  return std::visit([](const auto& held) { return FieldValue(held); }, value);
}

models::OptionValue as_option_value(const FieldValue& value) {
  if (const auto* integer = std::get_if<int64_t>(&value)) return *integer;
  if (const auto* number = std::get_if<double>(&value)) return *number;
  if (const auto* flag = std::get_if<bool>(&value)) return *flag;
  return std::get<std::string>(value);
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

}  // namespace

const std::vector<Field>& config_fields() {
  static const std::vector<Field> fields = make_fields();
  return fields;
}

std::vector<Field> model_fields(const models::ModelSpec& model) {
  std::vector<Field> fields;
  for (const models::OptionSpec& option : model.options) {
    Field entry;
    entry.key = "model." + option.name;
    entry.type = static_cast<FieldType>(as_field_value(option.fallback).index());
    entry.rule.fallback = option_text(option.fallback);
    if (entry.type == FieldType::kInteger || entry.type == FieldType::kNumber) {
      entry.rule.minimum = option.minimum;
      if (option.maximum >= option.minimum) entry.rule.maximum = option.maximum;
    }
    entry.rule.choices = option.choices;
    entry.rule.unit = option.unit;
    entry.rule.meaning = option.meaning;
    entry.rule.change = Change::kFixed;
    entry.set = [name = option.name](Config& config, const FieldValue& value) {
      auto values = config.model.options.values();
      values[name] = as_option_value(value);
      config.model.options = models::Options(std::move(values));
    };
    entry.get = [name = option.name, fallback = option.fallback](const Config& config) {
      const auto& values = config.model.options.values();
      auto found = values.find(name);
      return as_field_value(found == values.end() ? fallback : found->second);
    };
    fields.push_back(std::move(entry));
  }
  return fields;
}

std::vector<Field> fields_with_model(const std::string& model_name) {
  std::vector<Field> all;
  const auto& models = models::registered_models();
  auto model = models.find(model_name);
  for (const Field& entry : config_fields()) {
    all.push_back(entry);
    if (entry.key == "model.name" && model != models.end()) {
      append(all, model_fields(model->second));
    }
  }
  return all;
}

std::string type_text(const Field& field) {
  if (field.key == "data.path") return "text or list";
  switch (field.type) {
    case FieldType::kInteger:
      return "integer";
    case FieldType::kNumber:
      return "number";
    case FieldType::kFlag:
      return "true or false";
    case FieldType::kText:
      return "text";
    case FieldType::kTextList:
      return "list of text";
    case FieldType::kNumberList:
      return "list of numbers";
    case FieldType::kSplit:
      return "split";
  }
  return "";
}

std::string allowed_text(const Field& field) {
  const FieldRule& rule = field.rule;
  if (!rule.choices.empty()) return "one of " + joined(rule.choices);
  std::string range;
  if (rule.minimum && rule.maximum && *rule.maximum < 1e6) {
    const std::string low = format_number(*rule.minimum);
    const std::string high = format_number(*rule.maximum);
    range = rule.open ? "more than " + low + ", less than " + high : low + " to " + high;
  } else if (rule.minimum) {
    const std::string low = format_number(*rule.minimum);
    range = rule.open ? "more than " + low : low + " or more";
    if (rule.maximum && *rule.maximum < kMany) {
      range += ", at most " + format_number(*rule.maximum);
    }
  }
  return rule.automatic && !range.empty() ? "auto; " + range : range;
}

}  // namespace longship::runtime
