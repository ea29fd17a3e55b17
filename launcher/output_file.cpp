#include "launcher/output_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "runtime/error.h"

namespace longship::launcher {

namespace fs = std::filesystem;

namespace {

// The file is made beside its place under another name first, so that an existing one needs it,
// too.
void check_folder(const std::string& path, const fs::path& folder) {
  if (::faccessat(AT_FDCWD, folder.c_str(), W_OK | X_OK, AT_EACCESS) == 0) return;
  const std::string reason = std::strerror(errno);
  throw runtime::UsageError(path + " cannot be written: no file can be made in the folder " +
                            folder.string() + " (" + reason + "); name a file in another folder");
}

}  // namespace

std::string check_output_file(const std::string& path, bool force,
                              const std::vector<std::string>& inputs) {
  using runtime::UsageError;
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_directory(status)) {
    throw UsageError(path + " is a folder; name a file by --output");
  }
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    throw UsageError(path + " is a device or pipe, not a file; name a file by --output");
  }
  const fs::path folder = fs::absolute(path, error).parent_path();
  if (fs::exists(folder / "manifest.json", error)) {
    throw UsageError(path +
                     " lies in a checkpoint, which must stay as it is; name a file elsewhere");
  }
  if (!fs::is_directory(folder, error)) {
    throw UsageError(path + " cannot be written: there is no folder " + folder.string() +
                     "; make it first");
  }
  if (!fs::exists(status)) {
    if (fs::is_symlink(fs::symlink_status(path, error))) {
      throw UsageError(path + " is a link that leads nowhere; remove it or name another file");
    }
    check_folder(path, folder);
    return path;
  }
  for (const std::string& input : inputs) {
    if (fs::equivalent(path, input, error)) {
      throw UsageError(path + " is an input of this command; name another file by --output");
    }
  }
  if (!force) {
    throw UsageError(path + " exists; give --force to replace it");
  }
  const bool link = fs::is_symlink(fs::symlink_status(path, error));
  check_folder(path, link ? fs::canonical(path).parent_path() : folder);
  return link ? fs::canonical(path).string() : path;
}

}  // namespace longship::launcher
