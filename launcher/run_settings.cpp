#include "launcher/run_settings.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "runtime/config_dump.h"
#include "runtime/config_load.h"
#include "runtime/error.h"

namespace longship::launcher {

namespace fs = std::filesystem;
using runtime::Config;
using runtime::ConfigError;

void refuse_to_overwrite(const std::string& root, const std::string& resume) {
  if (resume != "none") return;
  throw ConfigError("there is a run in " + root +
                    " already, and --resume none never overwrites one: give another run.name, or "
                    "leave --resume at auto to go on with it");
}

std::vector<std::string> compare_with(const std::string& where, const Config& stored,
                                      int64_t chosen, const Config& given,
                                      const std::string& way_out) {
  std::string refused;
  std::vector<std::string> changes;
  for (const runtime::ConfigChange& change : runtime::compare_configs(stored, given)) {
    const std::string text =
        change.key + " (" + change.old_value + " there, " + change.new_value + " now)";
    const int64_t before = stored.train.micro_batch_size;
    const int64_t now = given.train.micro_batch_size;
    const bool same =
        change.key == "train.micro_batch_size" && (now == 0 || (before == 0 && now == chosen));
    if (!change.allowed && !same) {
      refused += (refused.empty() ? "" : ", ") + text;
    }
    changes.push_back(text);
  }
  if (!refused.empty()) {
    throw ConfigError(where + " was started with other settings that cannot change on resume: " +
                      refused + "; give the old values, or " + way_out);
  }
  return changes;
}

Config settings_of(const std::string& checkpoint, const nlohmann::json& scalars) {
  // RUN/checkpoints/step-...: data paths are relative to the run directory.
  const fs::path run = fs::absolute(checkpoint).parent_path().parent_path();
  return runtime::parse_config(scalars.at("config").at("text").get<std::string>(),
                               checkpoint + "/manifest.json", run.string());
}

int64_t micro_batch_size_of(const nlohmann::json& scalars) {
  return scalars.at("order").at("micro_batch_size").get<int64_t>();
}

void compare_with_checkpoint(const std::string& checkpoint, const nlohmann::json& scalars,
                             const Config& given) {
  Config stored = settings_of(checkpoint, scalars);
  stored.data.path = given.data.path;
  stored.base_directory = given.base_directory;
  compare_with("the run of " + checkpoint, stored, micro_batch_size_of(scalars), given,
               "leave --resume out to start from nothing");
}

std::string started_from(const std::string& resume, const std::string& before) {
  if (resume == "auto" || resume == "none") return before;
  std::error_code error;
  return fs::absolute(resume, error).lexically_normal().string();
}

}  // namespace longship::launcher
