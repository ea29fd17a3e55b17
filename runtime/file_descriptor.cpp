#include "runtime/file_descriptor.h"

#include <poll.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace longship::runtime {
namespace {

// Keeps SIGPIPE away from this thread while it lives. A signal that came meanwhile is taken off,
// unless one was pending before. Touches no state of the process.
class PipeSignalGuard {
 public:
  PipeSignalGuard() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~PipeSignalGuard() {
    const int error = errno;
    const timespec no_wait{};
    if (!was_pending_) sigtimedwait(&pipe_, nullptr, &no_wait);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = error;
  }
  PipeSignalGuard(const PipeSignalGuard&) = delete;
  PipeSignalGuard& operator=(const PipeSignalGuard&) = delete;

 private:
  sigset_t pipe_{};
  sigset_t before_{};
  bool was_pending_ = false;
};

}  // namespace

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  if (this != &other) {
    close();
    fd_ = other.release();
  }
  return *this;
}

FileDescriptor::~FileDescriptor() {
  close();
}

int FileDescriptor::release() {
  return std::exchange(fd_, -1);
}

bool FileDescriptor::close() {
  if (fd_ < 0) return true;
  // After EINTR the descriptor is closed on Linux; a second call could close another file.
  return ::close(std::exchange(fd_, -1)) == 0 || errno == EINTR;
}

bool write_all(int fd, std::string_view bytes) {
  const PipeSignalGuard guard;
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN) return false;
      pollfd ready{fd, POLLOUT, 0};  // somebody made the terminal nonblocking
      ::poll(&ready, 1, /*timeout=*/1000);
      continue;
    }
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

}  // namespace longship::runtime
