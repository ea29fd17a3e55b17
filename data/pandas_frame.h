#pragma once

#include <hdf5.h>

#include <string>
#include <vector>

#include "data/series_store.h"

namespace longship::data {

// pandas' `fixed` format: `axis0` holds the column names in order, `axis1` the index, and each
// block of columns of one type has its names in `block{i}_items` and its values in
// `block{i}_values`.
SeriesTable read_fixed_frame(hid_t file, const std::string& path, const std::string& group,
                             const std::vector<std::string>& columns,
                             Content content = Content::kAll);

// pandas' `table` format: one compound dataset `table` with the field `index` and blocks of
// columns, whose names are pickled in attributes.
SeriesTable read_frame_table(hid_t file, const std::string& path, const std::string& group,
                             const std::vector<std::string>& columns,
                             Content content = Content::kAll);

}  // namespace longship::data
