#pragma once

#include <hdf5.h>

#include <string>
#include <vector>

#include "data/series_store.h"

namespace longship::data {

// Reads, in place, an open HDF5 file that is not Longship's own: plain numeric datasets of one to
// three dimensions, NetCDF-4 variables, pandas frames. `dataset` is the path of a dataset or frame;
// empty: the only candidate. Columns without names are called after the dataset ("values_0",
// "values_1", ...). Throws DataError with the reason for whatever is not read.
SeriesTable read_foreign(hid_t file, const std::string& path, const std::string& dataset,
                         const std::vector<std::string>& columns, Content content = Content::kAll);

}  // namespace longship::data
