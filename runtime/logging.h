#pragma once

#include <spdlog/logger.h>

#include <memory>
#include <string>

#include "runtime/console.h"
#include "runtime/progress.h"  // IWYU pragma: export

namespace longship::runtime {

// A logger that prints "HH:MM:SS level message" in local time to `console` (null for ranks other
// than 0), and appends the same with the date and milliseconds in UTC to `file` ("" for none).
// Every line goes out by one write before the call returns, so that nothing is lost when the
// process dies, and lines of several processes do not mix. A closed pipe or a full disk never stops
// the program: a file that cannot be written is told once on the console.
//
// `level` is a value of log.level. Throws ConfigError when `file` cannot be opened.
std::shared_ptr<spdlog::logger> make_logger(const std::string& level,
                                            const std::shared_ptr<Console>& console,
                                            const std::string& file = "");

}  // namespace longship::runtime
