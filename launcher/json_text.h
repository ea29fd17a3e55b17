#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace longship::launcher {

// A report as JSON for people and programs. Names of files and columns need not be UTF-8, which
// JSON is: other bytes become U+FFFD.
inline std::string text_of(const nlohmann::json& report) {
  return report.dump(2, ' ', /*ensure_ascii=*/false, nlohmann::json::error_handler_t::replace);
}

}  // namespace longship::launcher
