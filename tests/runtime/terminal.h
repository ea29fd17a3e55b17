#pragma once

#include <pty.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <stdexcept>
#include <string>

namespace longship::tests {

// A terminal of 40 columns, or a pipe, whose output is read back.
class CapturedOutput {
 public:
  enum class Kind { kTerminal, kPipe };

  explicit CapturedOutput(Kind kind) {
    std::array<int, 2> ends{};
    winsize size{};
    size.ws_col = 40;
    size.ws_row = 10;
    const bool made = kind == Kind::kPipe
                          ? pipe(ends.data()) == 0
                          : openpty(&ends[0], &ends[1], nullptr, nullptr, &size) == 0;
    if (!made) throw std::runtime_error("no pipe or terminal");
    reader_ = ends[0];
    writer_ = ends[1];
  }
  ~CapturedOutput() {
    close(reader_);
    close(writer_);
  }
  CapturedOutput(const CapturedOutput&) = delete;
  CapturedOutput& operator=(const CapturedOutput&) = delete;

  int fd() const { return writer_; }

  // All that was written since the last call. Something must have been.
  std::string take() {
    std::array<char, 65536> buffer{};
    const ssize_t bytes = read(reader_, buffer.data(), buffer.size());
    return std::string(buffer.data(), bytes > 0 ? static_cast<size_t>(bytes) : 0);
  }

  // Whether nothing waits to be read.
  bool empty() const {
    int waiting = 0;
    return ioctl(reader_, FIONREAD, &waiting) == 0 && waiting == 0;
  }

 private:
  int reader_ = -1;
  int writer_ = -1;
};

}  // namespace longship::tests
