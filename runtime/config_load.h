#pragma once

#include <string>
#include <vector>

#include "runtime/config.h"

namespace longship::runtime {

// Reads and validates a run file. `overrides` are the words after --set, "section.key=value" with
// the value in YAML (lists and braces too; anything else is taken literally, blanks and commas
// included); they go before the file, and a later one before an earlier one. Relative data paths of
// overrides are made absolute from the current folder.
//
// The result is complete: every key has its value or default, and the options of the model are in
// bounds. A key that replaces another (train.steps and train.epochs, eval.every_steps and
// eval.every_epochs) sets the other to 0; so does checkpoint.every_steps with every_minutes unless
// both are given.
//
// Throws ConfigError "FILE:LINE: KEY: what is wrong", or with "--set ..." in the place of file and
// line, for: a file that cannot be read or is no YAML, unknown keys (with the nearest valid one),
// keys given twice, values of a wrong type or out of bounds, required keys that are missing, and
// values that do not fit together. Throws UsageError for an override without "=".
Config load_config(const std::string& path, const std::vector<std::string>& overrides = {});

// The same for a run file's text. `file_name` is for messages; relative data paths are resolved
// against `base_directory`.
Config parse_config(const std::string& text, const std::string& file_name,
                    const std::string& base_directory,
                    const std::vector<std::string>& overrides = {});

// data.path with relative paths resolved against the run file's folder and a leading "~/" replaced
// by the home folder. Globs and folders are left for the data set to expand.
std::vector<std::string> resolve_paths(const Config& config);

}  // namespace longship::runtime
