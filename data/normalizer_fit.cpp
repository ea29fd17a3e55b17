#include "data/normalizer_fit.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "data/error.h"

namespace longship::data {
namespace {

struct Moments {
  int64_t count = 0;
  double sum = 0;
  double least = std::numeric_limits<double>::infinity();
  double most = -std::numeric_limits<double>::infinity();
  double square_deviations = 0;
};

// Calls visit(column, value) for every measured value in the ranges.
template <typename Visit>
void for_measured(const SeriesTable& table, const MissingMask& mask,
                  const std::vector<std::array<int64_t, 2>>& ranges, const Visit& visit) {
  const auto* values = table.values.const_data_ptr<float>();
  const auto columns = static_cast<int64_t>(table.columns.size());
  for (const auto& [begin, end] : ranges) {
    for (int64_t row = begin; row < end; ++row) {
      for (int64_t column = 0; column < columns; ++column) {
        if (!mask.at(row, column)) {
          visit(static_cast<size_t>(column), double{values[row * columns + column]});
        }
      }
    }
  }
}

}  // namespace

Normalizer fit_normalizer(const std::string& kind, const SeriesTable& table,
                          const MissingMask& mask,
                          const std::vector<std::array<int64_t, 2>>& ranges) {
  if (kind != "standard" && kind != "minmax" && kind != "none") {
    throw DataError("data.normalize: '" + kind + "' is not known; use standard, minmax or none");
  }
  Normalizer normalizer;
  normalizer.kind = kind;
  normalizer.columns = table.columns;
  normalizer.shift.assign(table.columns.size(), 0);
  normalizer.scale.assign(table.columns.size(), 1);
  if (kind == "none") return normalizer;

  std::vector<Moments> moments(table.columns.size());
  for_measured(table, mask, ranges, [&](size_t column, double value) {
    Moments& m = moments[column];
    ++m.count;
    m.sum += value;
    m.least = std::min(m.least, value);
    m.most = std::max(m.most, value);
  });
  for (size_t i = 0; i < moments.size(); ++i) {
    if (moments[i].count == 0) {
      throw DataError("column '" + table.columns[i] +
                      "' has no value in the training part; leave it out or move the split");
    }
    if (moments[i].least == moments[i].most) normalizer.constant.push_back(table.columns[i]);
  }

  // A second pass over deviations from the mean: a difference of large sums would lose the spread.
  for_measured(table, mask, ranges, [&](size_t column, double value) {
    Moments& m = moments[column];
    const double deviation = value - m.sum / static_cast<double>(m.count);
    m.square_deviations += deviation * deviation;
  });
  for (size_t i = 0; i < moments.size(); ++i) {
    const Moments& m = moments[i];
    if (m.least == m.most) {
      normalizer.shift[i] =
          m.least;  // scale stays 1: dividing by a tiny spread would blow up noise
    } else if (kind == "minmax") {
      normalizer.shift[i] = m.least;
      normalizer.scale[i] = m.most - m.least;
    } else {
      normalizer.shift[i] = m.sum / static_cast<double>(m.count);
      normalizer.scale[i] = std::sqrt(m.square_deviations / static_cast<double>(m.count));
    }
  }
  return normalizer;
}

void normalize_in_place(SeriesTable& table, const Normalizer& normalizer) {
  const size_t columns = table.columns.size();
  std::vector<double> shift(columns);
  std::vector<double> scale(columns);
  for (size_t i = 0; i < columns; ++i) {
    const size_t known = normalizer.index(table.columns[i]);
    shift[i] = normalizer.shift[known];
    scale[i] = normalizer.scale[known];
  }
  auto* values = table.values.mutable_data_ptr<float>();
  for (int64_t row = 0; row < table.rows(); ++row, values += columns) {
    for (size_t i = 0; i < columns; ++i) {
      values[i] = static_cast<float>((double{values[i]} - shift[i]) / scale[i]);
    }
  }
}

}  // namespace longship::data
