#include "data/row_reader.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "data/error.h"
#include "data/number_text.h"

namespace longship::data {
namespace {

constexpr int64_t kBlockBytes = 16 * 1024 * 1024;

double unpack(double stored, const Packing& packing) {
  for (const double missing : packing.missing) {
    if (stored == missing) return std::numeric_limits<double>::quiet_NaN();
  }
  return stored * packing.scale + packing.offset;
}

// Whether float32 holds every number of a dataset as it is.
bool held_exactly(const Hdf5DatasetInfo& info, const Packing& packing) {
  if (packing.scale != 1 || packing.offset != 0) return false;
  return info.type_class == H5T_FLOAT ? info.type_size <= 4 : info.type_size <= 2;
}

void check_range(float narrow, double value, const Hdf5Dataset& dataset, int64_t row) {
  if (!std::isinf(narrow) || std::isinf(value)) return;
  throw DataError(dataset.name() + ": row " + std::to_string(row) + " holds " + number_text(value) +
                  ", beyond the range of float32; scale the column");
}

}  // namespace

at::Tensor read_rows(const Hdf5Dataset& dataset, const std::vector<int64_t>& columns,
                     const Packing& packing, std::vector<Narrowing>* narrowings) {
  const Hdf5DatasetInfo& info = dataset.info();
  if (!info.is_number()) {
    throw DataError(dataset.name() + " holds " + info.type + ", not numbers");
  }
  dataset.check_readable();
  const std::vector<int64_t>& shape = info.shape;
  const int64_t width = shape.size() == 1 ? 1 : shape.back();
  // A three-dimensional dataset is read one entry of its first axis after another.
  const int64_t sheets = shape.size() == 3 ? shape[0] : 1;
  const int64_t rows = shape.size() == 3 ? shape[1] : shape.at(0);
  const auto picked = static_cast<int64_t>(columns.size());
  at::Tensor result = at::empty({sheets * rows, picked}, at::kFloat);
  auto* out = result.mutable_data_ptr<float>();

  std::vector<int64_t> all(static_cast<size_t>(width));
  std::iota(all.begin(), all.end(), int64_t{0});
  const bool exact = held_exactly(info, packing);
  const bool direct = info.type_class == H5T_FLOAT && exact && packing.identity() && columns == all;
  std::vector<Narrowing> watched(columns.size());
  // Whole chunks at a time: a chunk that two blocks share would be decoded twice.
  const int64_t chunk = info.chunk.empty() ? 1 : info.chunk[shape.size() == 3 ? 1 : 0];
  const int64_t wanted = std::max<int64_t>(kBlockBytes / (8 * width), 1);
  const int64_t block = std::max(wanted / chunk, int64_t{1}) * chunk;

  std::vector<double> buffer;
  for (int64_t sheet = 0; sheet < sheets; ++sheet) {
    for (int64_t first = 0; first < rows; first += block) {
      const int64_t count = std::min(block, rows - first);
      float* here = out + (sheet * rows + first) * picked;
      std::vector<int64_t> start = {first};
      std::vector<int64_t> extent = {count};
      if (shape.size() >= 2) {
        start.push_back(0);
        extent.push_back(width);
      }
      if (shape.size() == 3) {
        start.insert(start.begin(), sheet);
        extent.insert(extent.begin(), 1);
      }
      if (direct) {
        dataset.read(H5T_NATIVE_FLOAT, start, extent, here);
        continue;
      }
      buffer.resize(static_cast<size_t>(count * width));
      dataset.read(H5T_NATIVE_DOUBLE, start, extent, buffer.data());
      for (int64_t row = 0; row < count; ++row) {
        for (int64_t i = 0; i < picked; ++i) {
          const auto at = static_cast<size_t>(i);
          const double value =
              unpack(buffer[static_cast<size_t>(row * width + columns[at])], packing);
          const float narrow = exact ? static_cast<float>(value)
                                     : watched[at].narrow(value, sheet * rows + first + row);
          check_range(narrow, value, dataset, first + row);
          here[row * picked + i] = narrow;
        }
      }
    }
  }
  if (narrowings != nullptr) *narrowings = std::move(watched);
  return result;
}

}  // namespace longship::data
