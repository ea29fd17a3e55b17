#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "data/missing_values.h"
#include "data/normalizer.h"
#include "data/series_store.h"

namespace longship::data {

// Fits a normaliser of a kind ("standard", "minmax", "none") to the measured values of a table in
// the given row ranges [begin, end), in double precision. Filled and missing values do not count.
// Kind "none" leaves the values as they are, so that it looks at none of them. Throws DataError for
// an unknown kind and, where one is fitted, for a column without any measured value there.
Normalizer fit_normalizer(const std::string& kind, const SeriesTable& table,
                          const MissingMask& mask,
                          const std::vector<std::array<int64_t, 2>>& ranges);

// Normalises a table's values in place. Throws DataError for a column that the normaliser lacks.
void normalize_in_place(SeriesTable& table, const Normalizer& normalizer);

}  // namespace longship::data
