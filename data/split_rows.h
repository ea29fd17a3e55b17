#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "data/dataset.h"

namespace longship::data {

// The rows [begin, end) of train, validation and test in one series, in this order and disjoint.
using SplitBounds = std::array<std::array<int64_t, 2>, 3>;

// Throws DataError for shares, ranges or dates that make no chronological split.
void check_split(const SplitSpec& split);

// The split of a series of `rows` rows. `time` are its stamps (ascending), needed for dates only.
// Throws DataError when dates are asked for and there is no time.
SplitBounds split_rows(const SplitSpec& split, int64_t rows, std::span<const int64_t> time);

}  // namespace longship::data
