#pragma once

#include <memory>
#include <mutex>
#include <string>

namespace longship::runtime {

// A terminal or a file that lines are printed to, each by one write. On a live terminal one status
// line, such as a progress bar, stands below the lines and gives way to them. Thread-safe. A reader
// that goes away (a closed pipe) ends the output and nothing else.
class Console {
 public:
  // `fd` stays the caller's. `live`: may move the cursor; `colour`: may use escapes for colours.
  Console(int fd, bool live, bool colour) : fd_(fd), live_(live), colour_(colour) {}
  ~Console() { clear_status(); }
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  // Standard error: live when it is a terminal that is not TERM=dumb, in colour unless NO_COLOR is
  // set besides.
  static std::shared_ptr<Console> standard_error();

  bool live() const { return live_; }
  bool colour() const { return colour_; }

  // `line` ends with a newline.
  void write_line(const std::string& line);
  // Replaces the status line, cut to the terminal's width; no effect when not live.
  void set_status(const std::string& text);
  void clear_status();

 private:
  void write(const std::string& text);
  size_t width() const;

  const int fd_;
  const bool live_;
  const bool colour_;
  std::mutex mutex_;
  std::string status_;
  bool closed_ = false;
};

}  // namespace longship::runtime
