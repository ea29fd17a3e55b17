#pragma once

#include <string>
#include <vector>

#include "runtime/config.h"
#include "runtime/config_load.h"
#include "runtime/error.h"

namespace longship::tests {

// The required keys alone.
inline const std::string kMinimal =
    "data:\n"
    "  path: weather.h5\n"
    "  inputs: [temp, dewp]\n"
    "  targets: [temp]\n"
    "  window: 48\n"
    "model: {name: linear}\n";

inline runtime::Config parse(const std::string& text,
                             const std::vector<std::string>& overrides = {}) {
  return runtime::parse_config(text, "run.yaml", "/base", overrides);
}

// kMinimal with more lines and overrides.
inline runtime::Config parse_with(const std::string& more,
                                  const std::vector<std::string>& overrides = {}) {
  return parse(kMinimal + more, overrides);
}

// The message of the ConfigError that `call` throws, or "no error".
template <typename Call>
std::string config_error(Call call) {
  try {
    call();
  } catch (const runtime::ConfigError& error) {
    return error.what();
  }
  return "no error";
}

inline std::string error_with(const std::string& more,
                              const std::vector<std::string>& overrides = {}) {
  return config_error([&] { parse_with(more, overrides); });
}

}  // namespace longship::tests
