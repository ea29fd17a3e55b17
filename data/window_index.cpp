#include "data/window_index.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace longship::data {

void WindowIndex::add(int64_t series, int64_t first, int64_t last, int64_t stride) {
  if (last < first) return;
  runs_.push_back({size_, series, first, stride});
  size_ += (last - first) / stride + 1;
}

WindowStart WindowIndex::at(int64_t window) const {
  if (window < 0 || window >= size_) {
    throw std::out_of_range("window " + std::to_string(window) + " of " + std::to_string(size_));
  }
  const auto after = std::upper_bound(runs_.begin(), runs_.end(), window,
                                      [](int64_t n, const Run& run) { return n < run.number; });
  const Run& run = *(after - 1);
  return {run.series, run.row + (window - run.number) * run.stride};
}

}  // namespace longship::data
