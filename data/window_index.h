#pragma once

#include <cstdint>
#include <vector>

namespace longship::data {

// A window by its series and first row there.
struct WindowStart {
  int64_t series = 0;
  int64_t row = 0;
};

// The windows of one split: numbers 0, 1, ... by series, then by first row. Kept as runs of evenly
// spaced starts, so its size follows the number of series and gaps, not of windows.
class WindowIndex {
 public:
  // Adds the starts first, first + stride, ... up to last (inclusive; none when last < first).
  // Series and rows must ascend.
  void add(int64_t series, int64_t first, int64_t last, int64_t stride);

  int64_t size() const { return size_; }
  // Throws std::out_of_range.
  WindowStart at(int64_t window) const;

 private:
  struct Run {
    int64_t number = 0;  // of its first window
    int64_t series = 0;
    int64_t row = 0;
    int64_t stride = 1;
  };
  std::vector<Run> runs_;
  int64_t size_ = 0;
};

}  // namespace longship::data
