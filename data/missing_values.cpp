#include "data/missing_values.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "data/error.h"

namespace longship::data {

MissingMask find_missing(const SeriesTable& table) {
  MissingMask mask;
  mask.columns = static_cast<int64_t>(table.columns.size());
  mask.counts.assign(table.columns.size(), 0);
  const auto* values = table.values.const_data_ptr<float>();
  const int64_t rows = table.rows();
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < mask.columns; ++column) {
      const int64_t at = row * mask.columns + column;
      if (std::isfinite(values[at])) continue;
      if (mask.flags.empty()) mask.flags.assign(static_cast<size_t>(rows * mask.columns), 0);
      mask.flags[static_cast<size_t>(at)] = 1;
      ++mask.counts[static_cast<size_t>(column)];
    }
  }
  return mask;
}

void refuse_missing(const SeriesTable& table, const MissingMask& mask) {
  const auto first = std::find(mask.flags.begin(), mask.flags.end(), 1) - mask.flags.begin();
  const int64_t row = first / mask.columns;
  const auto column = static_cast<size_t>(first % mask.columns);
  const auto after = std::upper_bound(table.offsets.begin(), table.offsets.end(), row);
  const auto series = static_cast<size_t>(after - table.offsets.begin() - 1);
  const float value = table.values.const_data_ptr<float>()[first];
  std::vector<std::string> counts;
  for (size_t i = 0; i < table.columns.size(); ++i) {
    if (mask.counts[i] > 0)
      counts.push_back(table.columns[i] + " " + std::to_string(mask.counts[i]));
  }
  throw DataError(table.place(series) + ", row " + std::to_string(row - table.offsets[series]) +
                  ", column '" + table.columns[column] + "' is " +
                  (std::isnan(value) ? "missing" : "infinite") +
                  "; missing or infinite values per column: " + listed(counts) +
                  "; set data.missing to interpolate, forward_fill or drop");
}

bool fill_column(float* values, int64_t rows, int64_t stride, std::span<const int64_t> borders,
                 MissingPolicy policy) {
  const auto missing = [&](int64_t row) { return !std::isfinite(values[row * stride]); };
  int64_t first_known = 0;
  while (first_known < rows && missing(first_known)) ++first_known;
  if (first_known == rows) return false;
  for (int64_t row = 0; row < first_known; ++row) {
    values[row * stride] = values[first_known * stride];
  }

  int64_t row = first_known + 1;
  while (row < rows) {
    if (!missing(row)) {
      ++row;
      continue;
    }
    const int64_t before = row - 1;
    int64_t after = row;
    while (after < rows && missing(after)) ++after;
    // The last border inside the gap or at its end: rows before it must not see the value after.
    int64_t line_from = row;
    for (const int64_t border : borders) {
      if (border > line_from && border <= after) line_from = border;
    }
    const double left = values[before * stride];
    const double right = after < rows ? values[after * stride] : left;
    for (; row < after; ++row) {
      const bool straight = policy == MissingPolicy::kInterpolate && row >= line_from;
      const double share = static_cast<double>(row - before) / static_cast<double>(after - before);
      values[row * stride] = static_cast<float>(straight ? left + share * (right - left) : left);
    }
  }
  return true;
}

}  // namespace longship::data
