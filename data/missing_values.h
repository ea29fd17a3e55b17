#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/dataset.h"
#include "data/series_store.h"

namespace longship::data {

// Where values are missing: (rows x columns) flags of a table, empty when nothing is missing.
struct MissingMask {
  std::vector<uint8_t> flags;  // row-major, 1 where missing
  int64_t columns = 0;
  std::vector<int64_t> counts;  // per column

  bool any() const { return !flags.empty(); }
  bool at(int64_t row, int64_t column) const {
    return any() && flags[static_cast<size_t>(row * columns + column)] != 0;
  }
};

// Finds missing values: NaN and, because no sum survives them, infinite ones.
MissingMask find_missing(const SeriesTable& table);

// Throws DataError naming the first missing value by series, row and column, with the counts of
// every column and the policies that treat them.
[[noreturn]] void refuse_missing(const SeriesTable& table, const MissingMask& mask);

// Fills the missing values of one column of one series in place: values[row * stride] for rows
// [0, rows). `borders` are the rows where validation and test start; a gap that reaches over a
// border is not interpolated before it, so that no training value comes from later parts. A gap at
// the start takes the first value, wherever that is: a column that begins after the training part
// must not be filled. Policy kForwardFill or kInterpolate. A column without any value is left as it
// is; returns false then.
bool fill_column(float* values, int64_t rows, int64_t stride, std::span<const int64_t> borders,
                 MissingPolicy policy);

}  // namespace longship::data
