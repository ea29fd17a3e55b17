#pragma once

#include <functional>
#include <string>

#include "runtime/config.h"

namespace longship::runtime {

// Checks what holds between several keys, or within one beyond its field's rule. `origin` tells
// where a key was set ("run.yaml:7"), for messages. Throws ConfigError.
void check_config(const Config& config,
                  const std::function<std::string(const std::string& key)>& origin);

}  // namespace longship::runtime
