#include "runtime/config_field_table.h"

#include <array>
#include <string>
#include <utility>

namespace longship::runtime::field_table {
namespace {

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

}  // namespace

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
      missing_field(
          {.fallback = "error",
           .choices = {"error", "forward_fill", "interpolate", "drop"},
           .meaning =
               "What is done with missing values; a filled gap at the start of a series gets "
               "its first known value.",
           .change = Change::kFixed,
           .synonyms = {"fillna", "nan"}}),
      field("data.shuffle", LONGSHIP_SETTING(data.shuffle),
            {.fallback = "true",
             .meaning = "Windows are trained in a new random order each epoch.",
             .change = Change::kFixed}),
      field("data.residence", LONGSHIP_SETTING(data.residence),
            {.fallback = "auto",
             .choices = {"auto", "device", "host"},
             .meaning = "Where windows are cut out: on the GPU, from series in its memory, or by "
                        "the host, which sends them; auto: on the GPU if the series take at most a "
                        "quarter of its free memory."}),
  };
}

}  // namespace longship::runtime::field_table
