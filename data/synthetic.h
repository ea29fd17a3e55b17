#pragma once

#include <cstdint>

#include "data/series_store.h"

namespace longship::data {

struct SyntheticSpec {
  int64_t series = 3;
  int64_t rows = 10'000;  // per series
  int64_t columns = 4;
  uint64_t seed = 42;
  double missing = 0;  // share of values left out, 0 to below 1
};

// Hourly series "series_0", ... from 2020-01-01 UTC with columns "x0", ...: a daily and a weekly
// wave of random amplitude and phase, a trend, and noise that remembers (AR(1)). The same on every
// machine for equal specs; a series does not depend on how many others or how many rows are made.
// Throws DataError for numbers that make no series.
SeriesTable make_synthetic(const SyntheticSpec& spec);

}  // namespace longship::data
