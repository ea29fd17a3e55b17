#pragma once

#include <string>
#include <vector>

#include "runtime/config.h"

namespace longship::runtime {

// All keys with their values in table order, as a run file: parse_config gives an equal Config.
// Values that were `auto` stay so; paths stay as written.
std::string dump_config(const Config& config);

// The same settings for a run file that lies in `folder`: relative data paths lead from there to
// the same files.
Config move_config(const Config& config, const std::string& folder);

// A key with another value than the stored one, when a run is resumed.
struct ConfigChange {
  std::string key;
  std::string old_value;  // as in the dump
  std::string new_value;
  bool allowed = false;
};

// In table order. Data paths that lead to the same place are equal. Of two different models only
// the name is reported.
std::vector<ConfigChange> compare_configs(const Config& stored, const Config& given);

}  // namespace longship::runtime
