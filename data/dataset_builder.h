#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "data/dataset.h"
#include "data/normalizer.h"
#include "data/series_store.h"
#include "data/window_index.h"

namespace longship::data {

// What a Dataset is made of; see dataset.h for the meaning of each.
struct DatasetParts {
  DatasetSpec spec;
  SeriesTable
      table;  // columns: the inputs in order, then the targets that are not inputs; normalised
  std::vector<int64_t> input_columns;  // positions in the table
  std::vector<int64_t> target_columns;
  std::array<WindowIndex, 4> windows;    // by Split
  std::array<bool, 4> filled_targets{};  // by Split: whether any target value there was filled
  std::vector<uint8_t> target_filled;    // (rows, targets), 1 where filled; empty when none was
  Normalizer normalizer;
  uint64_t fingerprint = 0;
  int64_t step_ns = 0;
};

// Reads, cleans, splits, fits and normalises. Throws DataError.
DatasetParts build_dataset(const DatasetSpec& spec);

}  // namespace longship::data
