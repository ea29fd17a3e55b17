#include "runtime/checkpoint_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <random>
#include <system_error>
#include <vector>

namespace longship::runtime {

namespace fs = std::filesystem;

namespace {

// Small enough that hashing leaves the bytes in the cache for write().
constexpr std::size_t kChunk = std::size_t{4} << 20;

std::string reason(int error_number) {
  return std::system_category().message(error_number);
}

[[noreturn]] void fail_on(const std::string& action, const std::string& path, int error_number) {
  throw CheckpointError("cannot " + action + " " + path + ": " + reason(error_number));
}

int open_for_reading(const std::string& path) {
  // O_NONBLOCK: opening a pipe must not wait for its writer.
  int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    if (errno == ENOENT || errno == ENOTDIR) throw DamagedError(path + " is missing");
    // A link to itself, a socket, a bad sector: no rights or time would make it readable.
    if (errno == ELOOP || errno == ENXIO || errno == EIO) {
      throw DamagedError("cannot open " + path + ": " + reason(errno));
    }
    fail_on("open", path, errno);
  }
  return descriptor;
}

}  // namespace

int FileOps::open_new(const std::string& path) {
  return ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
}
ssize_t FileOps::write(int descriptor, const void* data, std::size_t bytes) {
  return ::write(descriptor, data, bytes);
}
int FileOps::fsync(int descriptor) {
  return ::fsync(descriptor);
}
int FileOps::rename(const std::string& from, const std::string& to) {
  return std::rename(from.c_str(), to.c_str());
}
int FileOps::mkdir(const std::string& path) {
  return ::mkdir(path.c_str(), 0777);
}
int FileOps::symlink(const std::string& target, const std::string& path) {
  return ::symlink(target.c_str(), path.c_str());
}
int FileOps::unlink(const std::string& path) {
  return ::unlink(path.c_str());
}
int FileOps::rmdir(const std::string& path) {
  return ::rmdir(path.c_str());
}

struct HashingFile::Hash {
  struct Free {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };
  std::unique_ptr<XXH3_state_t, Free> state{XXH3_createState()};
  Hash() {
    if (!state || XXH3_64bits_reset(state.get()) != XXH_OK) throw std::bad_alloc();
  }
};

HashingFile::HashingFile(FileOps& files, const std::string& path, uint64_t expected_bytes)
    : files_(files),
      path_(path),
      expected_bytes_(expected_bytes),
      descriptor_(files.open_new(path)),
      hash_(std::make_unique<Hash>()) {
  if (descriptor_.get() < 0) fail("create", errno);
}

HashingFile::~HashingFile() = default;

void HashingFile::fail(const std::string& action, int error_number) const {
  std::string text = "cannot " + action + " " + path_ + ": " + reason(error_number);
  if (error_number == ENOSPC || error_number == EDQUOT) {
    text += " (the file needs " + std::to_string(expected_bytes_) + " bytes, " +
            std::to_string(written_) + " were written";
    struct statvfs space {};
    if (::statvfs(fs::path(path_).parent_path().c_str(), &space) == 0) {
      text += ", " + std::to_string(uint64_t{space.f_bavail} * space.f_frsize) + " are free";
      // 0 of 0 where a file system does not limit them.
      if (space.f_files > 0)
        text += ", and " + std::to_string(space.f_favail) + " inodes for files";
    }
    text += "); free some space or inodes, or use a folder on a larger file system";
  }
  throw CheckpointError(text);
}

void HashingFile::write(const void* data, std::size_t bytes) {
  const char* next = static_cast<const char*>(data);
  while (bytes > 0) {
    const std::size_t chunk = std::min(bytes, kChunk);
    XXH3_64bits_update(hash_->state.get(), next, chunk);
    std::size_t done = 0;
    while (done < chunk) {
      const ssize_t count = files_.write(descriptor_.get(), next + done, chunk - done);
      if (count < 0) {
        if (errno == EINTR) continue;
        fail("write", errno);
      }
      done += static_cast<std::size_t>(count);
      written_ += static_cast<uint64_t>(count);
    }
    next += chunk;
    bytes -= chunk;
  }
}

FileDigest HashingFile::finish() {
  if (files_.fsync(descriptor_.get()) != 0) fail("flush", errno);
  // Network file systems report a full quota only here.
  if (!descriptor_.close()) fail("close", errno);
  return {written_, XXH3_64bits_digest(hash_->state.get())};
}

InputFile::InputFile(const std::string& path) : path_(path), descriptor_(open_for_reading(path)) {
  struct stat status {};
  if (::fstat(descriptor_.get(), &status) != 0) fail_on("read", path, errno);
  if (!S_ISREG(status.st_mode)) throw DamagedError(path + " is not a regular file");
  size_ = static_cast<uint64_t>(status.st_size);
}

void InputFile::read(uint64_t offset, void* destination, std::size_t bytes) const {
  char* next = static_cast<char*>(destination);
  while (bytes > 0) {
    const ssize_t count = ::pread(descriptor_.get(), next, bytes, static_cast<off_t>(offset));
    if (count < 0) {
      if (errno == EINTR) continue;
      if (errno == EIO) throw DamagedError("cannot read " + path_ + ": " + reason(errno));
      fail_on("read", path_, errno);
    }
    if (count == 0) {
      throw DamagedError(path_ + " ends at byte " + std::to_string(offset) + ", " +
                         std::to_string(bytes) + " bytes early");
    }
    next += count;
    offset += static_cast<uint64_t>(count);
    bytes -= static_cast<std::size_t>(count);
  }
}

FileDigest InputFile::digest() const {
  std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(),
                                                                 &XXH3_freeState);
  if (!state || XXH3_64bits_reset(state.get()) != XXH_OK) throw std::bad_alloc();
  std::vector<char> buffer(std::min<uint64_t>(size_, kChunk));
  for (uint64_t offset = 0; offset < size_;) {
    const std::size_t bytes = std::min<uint64_t>(size_ - offset, kChunk);
    read(offset, buffer.data(), bytes);
    XXH3_64bits_update(state.get(), buffer.data(), bytes);
    offset += bytes;
  }
  return {size_, XXH3_64bits_digest(state.get())};
}

uint64_t xxh3(const void* data, std::size_t bytes) {
  return XXH3_64bits(data, bytes);
}

std::string hash_text(uint64_t hash) {
  std::array<char, 17> text{};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(hash));
  return text.data();
}

std::string nonce() {
  std::random_device device;
  return hash_text((uint64_t{device()} << 32) | device());
}

void write_text_file(FileOps& files, const std::string& path, const std::string& text) {
  HashingFile file(files, path, text.size());
  file.write(text.data(), text.size());
  file.finish();
}

void make_folder(FileOps& files, const std::string& path) {
  if (files.mkdir(path) != 0) fail_on("create the folder", path, errno);
}

void rename_path(FileOps& files, const std::string& from, const std::string& to) {
  if (files.rename(from, to) != 0) {
    const int error_number = errno;
    throw CheckpointError("cannot rename " + from + " to " + to + ": " + reason(error_number));
  }
}

void sync_folder(FileOps& files, const std::string& path) {
  FileDescriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() < 0) fail_on("open the folder", path, errno);
  if (files.fsync(folder.get()) != 0 && errno != EINVAL && errno != ENOTSUP) {
    fail_on("flush the folder", path, errno);
  }
}

void remove_tree(FileOps& files, const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(path, error);
  if (status.type() == fs::file_type::not_found) return;
  if (error) fail_on("remove", path, error.value());
  if (!fs::is_directory(status)) {
    if (files.unlink(path) != 0 && errno != ENOENT) fail_on("remove", path, errno);
    return;
  }
  std::vector<std::string> entries;
  for (fs::directory_iterator entry(path, error), end; !error && entry != end;
       entry.increment(error)) {
    entries.push_back(entry->path().string());
  }
  if (error) fail_on("remove", path, error.value());
  for (const std::string& entry : entries) remove_tree(files, entry);
  if (files.rmdir(path) != 0 && errno != ENOENT) fail_on("remove", path, errno);
}

void replace_link(FileOps& files, const std::string& folder, const std::string& name,
                  const std::string& target) {
  const std::string path = folder + "/" + name;
  const std::string temporary = folder + "/.partial-" + name + "-" + nonce();
  if (files.symlink(target, temporary) != 0) fail_on("create the link", temporary, errno);
  // A run copied without its links holds folders in their place, which rename() would refuse.
  std::error_code error;
  if (fs::is_directory(fs::symlink_status(path, error))) {
    const std::string old = folder + "/.removed-" + name + "-" + nonce();
    rename_path(files, path, old);
    rename_path(files, temporary, path);
    remove_tree(files, old);
    return;
  }
  rename_path(files, temporary, path);
}

}  // namespace longship::runtime
