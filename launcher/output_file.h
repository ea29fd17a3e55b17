#pragma once

#include <string>
#include <vector>

namespace longship::launcher {

// Refuses an output that a command must not replace, whatever --force says: a folder, a device or a
// pipe, one of its own inputs (also by another name), a file of a checkpoint; and without --force
// any that exists. Returns the path to write: that of the file itself where `path` is a symbolic
// link to one, so that the link stays. Throws runtime::UsageError that names the path and the
// remedy.
std::string check_output_file(const std::string& path, bool force,
                              const std::vector<std::string>& inputs);

}  // namespace longship::launcher
