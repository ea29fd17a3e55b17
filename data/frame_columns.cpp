#include "data/frame_columns.h"

#include <algorithm>
#include <cmath>

#include "data/error.h"
#include "data/number_text.h"
#include "data/row_reader.h"

namespace longship::data {

void place_columns(SeriesTable& table, const at::Tensor& block,
                   const std::vector<std::string>& from, const std::string& where) {
  const auto stored = block.accessor<double, 2>();
  auto placed = table.values.accessor<float, 2>();
  for (size_t i = 0; i < from.size(); ++i) {
    const auto found = std::find(table.columns.begin(), table.columns.end(), from[i]);
    if (found == table.columns.end()) continue;
    const int64_t column = found - table.columns.begin();
    std::vector<Narrowing> narrowing(1);
    for (int64_t row = 0; row < block.size(0); ++row) {
      const double value = stored[row][static_cast<int64_t>(i)];
      placed[row][column] = narrowing.front().narrow(value, row);
      if (std::isinf(placed[row][column]) && !std::isinf(value)) {
        throw DataError(where + ": row " + std::to_string(row) + " of column '" + from[i] +
                        "' holds " + number_text(value) +
                        ", beyond the range of float32; scale the column");
      }
    }
    list_lost(table, narrowing, {from[i]}, where);
  }
}

void place_rows(SeriesTable& table, const Hdf5Dataset& dataset,
                const std::vector<std::string>& from) {
  std::vector<int64_t> positions;
  std::vector<std::string> names;
  for (size_t i = 0; i < from.size(); ++i) {
    if (std::find(table.columns.begin(), table.columns.end(), from[i]) == table.columns.end()) {
      continue;
    }
    positions.push_back(static_cast<int64_t>(i));
    names.push_back(from[i]);
  }
  if (names.empty()) return;
  std::vector<Narrowing> narrowings;
  const at::Tensor values = read_rows(dataset, positions, {}, &narrowings);
  for (size_t i = 0; i < names.size(); ++i) {
    const auto found = std::find(table.columns.begin(), table.columns.end(), names[i]);
    table.values.select(1, found - table.columns.begin())
        .copy_(values.select(1, static_cast<int64_t>(i)));
  }
  list_lost(table, narrowings, names, dataset.name());
}

}  // namespace longship::data
