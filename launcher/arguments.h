#pragma once

#include <cxxopts.hpp>
#include <string>
#include <vector>

namespace longship::launcher {

// Parses a subcommand's words. Throws runtime::UsageError for unknown options, missing values and
// words that belong to nothing, naming the help to read.
cxxopts::ParseResult parse_arguments(cxxopts::Options& options,
                                     const std::vector<std::string>& arguments);

// An option's value, or `fallback` when it was not given. Throws runtime::UsageError when it was
// given twice.
std::string text_option(const cxxopts::ParseResult& parsed, const std::string& name,
                        const std::string& fallback);

}  // namespace longship::launcher
