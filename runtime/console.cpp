#include "runtime/console.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

#include "runtime/file_descriptor.h"

namespace longship::runtime {
namespace {

constexpr const char* kEraseLine = "\r\033[K";

}  // namespace

std::shared_ptr<Console> Console::standard_error() {
  const char* terminal = std::getenv("TERM");
  const bool live =
      isatty(STDERR_FILENO) == 1 && terminal != nullptr && std::string_view(terminal) != "dumb";
  const char* no_colour = std::getenv("NO_COLOR");
  const bool colour = live && (no_colour == nullptr || *no_colour == '\0');
  return std::make_shared<Console>(STDERR_FILENO, live, colour);
}

void Console::write_line(const std::string& line) {
  const std::lock_guard lock(mutex_);
  write(status_.empty() ? line : kEraseLine + line + status_);
}

void Console::set_status(const std::string& text) {
  if (!live_) return;
  const std::lock_guard lock(mutex_);
  // The last column stays free: some terminals wrap as soon as it is filled.
  status_ = text.substr(0, width() - 1);
  write(kEraseLine + status_);
}

void Console::clear_status() {
  const std::lock_guard lock(mutex_);
  if (status_.empty()) return;
  status_.clear();
  write(kEraseLine);
}

void Console::write(const std::string& text) {
  if (!closed_) closed_ = !write_all(fd_, text);
}

size_t Console::width() const {
  constexpr size_t kUsual = 80;
  winsize size{};
  if (ioctl(fd_, TIOCGWINSZ, &size) != 0 || size.ws_col < 2) return kUsual;
  return size.ws_col;
}

}  // namespace longship::runtime
