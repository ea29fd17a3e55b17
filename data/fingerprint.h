#pragma once

#include <cstdint>

#include "data/dataset.h"
#include "data/series_store.h"

namespace longship::data {

// See Dataset::fingerprint(). The table holds the used columns after the treatment of missing
// values and before normalisation.
uint64_t fingerprint_of(const SeriesTable& table, const DatasetSpec& spec);

}  // namespace longship::data
