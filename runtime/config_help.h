#pragma once

#include <string>

namespace longship::runtime {

// All keys, the options of every registered model included, as aligned plain text for --help: type,
// default, unit, bounds and meaning.
std::string fields_help();

// The same as docs/config.md.
std::string fields_markdown();

}  // namespace longship::runtime
