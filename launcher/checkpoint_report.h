#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace longship::launcher {

// What `longship checkpoint` prints: the JSON of --json, and the same as text for a terminal.

// {"folder", "checkpoints": [{"name", "path", "latest", "best", "step", "applied", "created",
// "bytes", "files"} or, where the manifest cannot be used, "problem"], "set_aside": [names]}
nlohmann::json list_report(const std::string& checkpoints_folder);
std::string list_text(const nlohmann::json& report);

// {"checkpoint", "step", "applied", "created", "world_size", "versions", "bytes", "files",
// "weights", "optimizer", "extra", "scalars"; "missing" when parts are}. Reads the manifest only.
// Throws as runtime::read_manifest.
nlohmann::json inspect_report(const std::string& checkpoint);
std::string inspect_text(const nlohmann::json& report);

}  // namespace longship::launcher
