#include "launcher/output_pump.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <system_error>

#include "runtime/file_descriptor.h"

namespace longship::launcher {
namespace {

void pump(int source, int target) {
  std::array<char, 16384> buffer{};
  bool listening = true;
  while (true) {
    const ssize_t bytes = read(source, buffer.data(), buffer.size());
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes <= 0) break;
    listening =
        listening && runtime::write_all(target, {buffer.data(), static_cast<size_t>(bytes)});
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
