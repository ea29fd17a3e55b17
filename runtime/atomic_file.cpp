#include "runtime/atomic_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <random>
#include <system_error>

#include "runtime/error.h"
#include "runtime/file_descriptor.h"
#include "runtime/process_identity.h"

namespace longship::runtime {
namespace {

namespace fs = std::filesystem;

std::string folder_of(const std::string& path) {
  const fs::path parent = fs::path(path).parent_path();
  return parent.empty() ? "." : parent.string();
}

// What a file system has left for its unprivileged users; "" where it cannot be asked.
std::string free_room(const std::string& folder) {
  struct statvfs info {};
  if (statvfs(folder.c_str(), &info) != 0) return "";
  std::string text =
      fmt::format(", {} are free", static_cast<uint64_t>(info.f_bavail) * info.f_frsize);
  // Files need inodes too; 0 of 0 where a file system does not limit them.
  if (info.f_files > 0) text += fmt::format(", and {} inodes for files", info.f_favail);
  return text;
}

[[noreturn]] void fail(const std::string& what, const std::string& path, const std::string& folder,
                       size_t bytes, int error) {
  std::string reason = std::generic_category().message(error);
  if (error == ENOSPC || error == EDQUOT) {
    reason += fmt::format(": {} bytes are needed", bytes) + free_room(folder);
  }
  throw ConfigError(
      fmt::format("{} '{}' on host {}: {} (errno {})", what, path, host_name(), reason, error));
}

// A file under a temporary name, removed unless it was renamed.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::string path) : path_(std::move(path)) {
    constexpr mode_t kUmaskDecides = 0666;
    file_ = FileDescriptor(
        ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kUmaskDecides));
  }
  ~TemporaryFile() {
    if (file_.valid() || written_) ::unlink(path_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  bool opened() const { return file_.valid(); }
  bool write(std::string_view contents) {
    written_ = true;
    return write_all(file_.get(), contents) && fsync(file_.get()) == 0 && file_.close();
  }
  bool rename_to(const std::string& path) {
    if (std::rename(path_.c_str(), path.c_str()) != 0) return false;
    written_ = false;
    return true;
  }

 private:
  std::string path_;
  FileDescriptor file_;
  bool written_ = false;
};

bool sync_folder(const std::string& folder) {
  const FileDescriptor handle(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!handle.valid()) return false;
  // Some file systems do not know fsync of a folder and need none.
  return fsync(handle.get()) == 0 || errno == EINVAL || errno == ENOTSUP;
}

}  // namespace

void write_file_atomically(const std::string& path, std::string_view contents) {
  TemporaryFile file(temporary_name(path));
  if (!file.opened() || !file.write(contents) || !file.rename_to(path) ||
      !sync_folder(folder_of(path))) {
    fail("cannot write", path, folder_of(path), contents.size(), errno);
  }
}

void probe_writable(const std::string& folder) {
  constexpr std::string_view kContents = "probe\n";
  const std::string path = (fs::path(folder) / "probe").string();
  TemporaryFile file(temporary_name(path));
  if (!file.opened() || !file.write(kContents)) {
    fail("cannot write into the folder", folder, folder, kContents.size(), errno);
  }
}

std::string temporary_name(const std::string& path) {
  std::random_device random;
  const uint64_t letters = (static_cast<uint64_t>(random()) << 32) | random();
  return (fs::path(path).parent_path() / fmt::format(".tmp-{:016x}", letters)).string();
}

}  // namespace longship::runtime
