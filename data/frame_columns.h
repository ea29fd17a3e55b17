#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "data/hdf5_dataset.h"
#include "data/series_store.h"

namespace longship::data {

// Puts the columns of a part of a frame where a table has columns of these names, as float32; the
// others are left. `table.values` has the table's shape already. Columns that float32 does not hold
// are listed in the table. Both throw DataError for a value beyond its range.

// Of doubles in memory, (rows, columns). `where`: file and dataset, for messages.
void place_columns(SeriesTable& table, const at::Tensor& block,
                   const std::vector<std::string>& from, const std::string& where);

// Of a dataset (rows, columns), block by block.
void place_rows(SeriesTable& table, const Hdf5Dataset& dataset,
                const std::vector<std::string>& from);

}  // namespace longship::data
