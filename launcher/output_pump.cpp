#include "launcher/output_pump.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <system_error>

namespace longship::launcher {
namespace {

// False when `target` takes no more. PIPE is ignored in Longship, so a lost reader is an error
// code.
bool write_all(int target, const char* data, size_t size) {
  while (size > 0) {
    const ssize_t written = write(target, data, size);
    if (written > 0) {
      data += written;
      size -= static_cast<size_t>(written);
    } else if (errno == EAGAIN) {  // somebody made the terminal nonblocking
      pollfd ready{target, POLLOUT, 0};
      poll(&ready, 1, /*timeout=*/1000);
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

void pump(int source, int target) {
  std::array<char, 16384> buffer{};
  bool listening = true;
  while (true) {
    const ssize_t bytes = read(source, buffer.data(), buffer.size());
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes <= 0) break;
    listening = listening && write_all(target, buffer.data(), static_cast<size_t>(bytes));
  }
  close(source);
}

}  // namespace

OutputPump::OutputPump(int target) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw std::system_error(errno, std::generic_category(), "pipe2");
  }
  write_end_ = ends[1];
  thread_ = std::thread(pump, ends[0], target);
}

OutputPump::~OutputPump() {
  close(write_end_);
  thread_.join();
}

}  // namespace longship::launcher
