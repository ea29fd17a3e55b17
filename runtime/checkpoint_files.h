#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "runtime/error.h"
#include "runtime/file_descriptor.h"

namespace longship::runtime {

// A file or checkpoint whose contents are not what was written: short, changed or missing parts. It
// may be set aside and an older one used. (A file that merely cannot be read at the moment, because
// of permissions or an I/O error, is a plain CheckpointError.)
class DamagedError : public CheckpointError {
 public:
  using CheckpointError::CheckpointError;
};

// The calls that change the file system, as one seam, so that tests can make any of them fail or
// end the process. Each is the POSIX call of that name: -1 and errno on failure.
class FileOps {
 public:
  virtual ~FileOps() = default;
  // A file that must not exist yet, for writing. Mode 0666 less the umask.
  virtual int open_new(const std::string& path);
  virtual ssize_t write(int descriptor, const void* data, std::size_t bytes);
  virtual int fsync(int descriptor);
  virtual int rename(const std::string& from, const std::string& to);
  virtual int mkdir(const std::string& path);
  virtual int symlink(const std::string& target, const std::string& path);
  virtual int unlink(const std::string& path);
  virtual int rmdir(const std::string& path);
};

// What identifies a file's contents: length in bytes and XXH3-64 of all of them.
struct FileDigest {
  uint64_t bytes = 0;
  uint64_t xxh3 = 0;
  bool operator==(const FileDigest&) const = default;
};

// Writes a new file from front to back and hashes what it writes. All errors are CheckpointErrors
// that name the path; on a full disk or quota they add the bytes needed and free. A file that was
// not finished stays behind for whoever owns its folder to remove.
class HashingFile {
 public:
  // expected_bytes: what the whole file will take, for the message on a full disk.
  HashingFile(FileOps& files, const std::string& path, uint64_t expected_bytes);
  ~HashingFile();
  HashingFile(const HashingFile&) = delete;
  HashingFile& operator=(const HashingFile&) = delete;

  void write(const void* data, std::size_t bytes);
  // Flushes the contents to the disk and closes the file.
  FileDigest finish();

 private:
  [[noreturn]] void fail(const std::string& action, int error_number) const;

  struct Hash;
  FileOps& files_;
  std::string path_;
  uint64_t expected_bytes_;
  uint64_t written_ = 0;
  FileDescriptor descriptor_;
  std::unique_ptr<Hash> hash_;
};

// A regular file opened for reading.
class InputFile {
 public:
  // Throws DamagedError when there is no such file, CheckpointError when it cannot be opened or is
  // not a regular file.
  explicit InputFile(const std::string& path);

  const std::string& path() const { return path_; }
  uint64_t size() const { return size_; }
  // Exactly [offset, offset + bytes). Throws DamagedError when the file ends before.
  void read(uint64_t offset, void* destination, std::size_t bytes) const;
  // The digest of the whole file, read in pieces.
  FileDigest digest() const;

 private:
  std::string path_;
  FileDescriptor descriptor_;
  uint64_t size_ = 0;
};

// XXH3-64 of some bytes, and 16 lower-case hexadecimal digits for it.
uint64_t xxh3(const void* data, std::size_t bytes);
std::string hash_text(uint64_t hash);

// 16 hexadecimal digits that no other process will come upon, for temporary names.
std::string nonce();

// The operations below throw CheckpointError naming the path and the system's reason.

void write_text_file(FileOps& files, const std::string& path, const std::string& text);
void make_folder(FileOps& files, const std::string& path);
void rename_path(FileOps& files, const std::string& from, const std::string& to);
// Flushes a folder's entries. File systems that cannot (EINVAL, ENOTSUP) are left be.
void sync_folder(FileOps& files, const std::string& path);
// Removes a file, link or folder with all it holds (links are not followed). Nothing there is fine.
void remove_tree(FileOps& files, const std::string& path);
// Makes folder/name a symbolic link to target (relative to folder) in one step, over whatever is
// there; a folder of that name is removed first.
void replace_link(FileOps& files, const std::string& folder, const std::string& name,
                  const std::string& target);

}  // namespace longship::runtime
