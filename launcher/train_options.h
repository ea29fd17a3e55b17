#pragma once

#include <optional>
#include <string>
#include <vector>

namespace longship::launcher {

// What stands behind `longship train`.
struct TrainOptions {
  std::string config_path;
  std::vector<std::string> overrides;  // words after --set
  std::string resume = "auto";         // auto, none or a path
  bool dry_run = false;
  int ranks = 1;  // to plan for in a dry run
};

// Nothing where help was asked for, which is then printed. Throws runtime::UsageError.
std::optional<TrainOptions> parse_train_options(const std::vector<std::string>& arguments);

}  // namespace longship::launcher
