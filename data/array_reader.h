#pragma once

#include <hdf5.h>

#include <cstdint>
#include <string>
#include <vector>

#include "data/hdf5_dataset.h"
#include "data/row_reader.h"
#include "data/series_store.h"

namespace longship::data {

// What NetCDF's attributes say about stored numbers: scale_factor, add_offset, _FillValue and
// missing_value. Throws DataError for _Unsigned, which changes the meaning of the type.
Packing packing_of(const Hdf5Dataset& dataset);

// Reads a numeric dataset: (time), (time, columns) or (series, time, columns). Column names come
// from its attribute `columns` or a string dataset beside it; boundaries of series in a
// two-dimensional one from an integer dataset `offsets` beside it; times from a time axis beside
// it. Throws DataError.
SeriesTable read_array(hid_t file, const std::string& path, const std::string& dataset,
                       const std::vector<std::string>& columns);

// Reads one-dimensional datasets of equal length in one group as the columns of one series, called
// after the datasets. Throws DataError.
SeriesTable read_column_datasets(hid_t file, const std::string& path,
                                 const std::vector<std::string>& datasets,
                                 const std::vector<std::string>& columns);

}  // namespace longship::data
