#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "data/hdf5_dataset.h"
#include "data/narrowing.h"

namespace longship::data {

// What turns a stored number into the value meant (NetCDF's packing): a stored number equal to one
// of `missing` is NaN, any other is number * scale + offset.
struct Packing {
  double scale = 1;
  double offset = 0;
  std::vector<double> missing;
  bool identity() const { return scale == 1 && offset == 0 && missing.empty(); }
};

// Reads columns of a numeric dataset of shape (rows), (rows, columns) or (series, rows, columns)
// block by block, so that no more than some MiB beside the result are held. Returns (rows,
// columns.size()) or (series * rows, columns.size()) float32. `narrowings`, when given, gets one
// entry a column that tells whether float32 holds its variation. Throws DataError; also for a value
// beyond float32's range.
at::Tensor read_rows(const Hdf5Dataset& dataset, const std::vector<int64_t>& columns,
                     const Packing& packing = {}, std::vector<Narrowing>* narrowings = nullptr);

}  // namespace longship::data
