#pragma once

#include <string_view>

namespace longship::runtime {

// Owns a file descriptor.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(other.release()) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor();

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int release();
  // False, with errno set, when closing failed: some file systems report a failed write only here.
  bool close();

 private:
  int fd_ = -1;
};

// Writes everything, over interruptions and short writes. False, with errno set, on failure. A
// reader that has gone gives EPIPE and no SIGPIPE.
bool write_all(int fd, std::string_view bytes);

}  // namespace longship::runtime
