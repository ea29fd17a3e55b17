#pragma once

#include <string>
#include <string_view>

namespace longship::runtime {

// Writes a file so that its name never leads to a half-written one: into a temporary file beside
// it, fsync, rename over the name, fsync of the folder. The mode follows the umask.
//
// Throws ConfigError naming path, host, the system's reason and, when the disk is full, the bytes
// needed and free; the temporary file is removed and an older file of the name is untouched.
void write_file_atomically(const std::string& path, std::string_view contents);

// Makes sure that files can be written into an existing folder, by writing and removing one. Throws
// ConfigError as above. Every rank that will write into a folder does this at the start.
void probe_writable(const std::string& folder);

// A name for a temporary file in the same folder, ".tmp-" and random letters: unique over the hosts
// that share the file system.
std::string temporary_name(const std::string& path);

}  // namespace longship::runtime
