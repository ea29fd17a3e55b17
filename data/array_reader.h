#pragma once

#include <hdf5.h>

#include <cstdint>
#include <string>
#include <vector>

#include "data/hdf5_dataset.h"
#include "data/row_reader.h"
#include "data/series_store.h"

namespace longship::data {

// What a dataset is called as a column: its name without its groups, and without what netCDF-4 puts
// in front when a variable is called like a dimension that it does not span.
std::string column_name(const std::string& path);

// Whether a dataset is an index that cuts the rows of those beside it into series: one-dimensional
// integers called `offsets` or `indptr`.
bool cuts_series(const Hdf5Dataset& dataset);

// What NetCDF's attributes say about stored numbers: scale_factor, add_offset, _FillValue and
// missing_value. Of a virtual dataset the fill value is missing too where it was set or the sources
// leave elements out. What was never written, or comes from no source, is noted. Throws DataError
// for _Unsigned, which changes the meaning of the type.
Packing packing_of(const Hdf5Dataset& dataset, std::vector<std::string>& notes);

// Reads a numeric dataset: (time), (time, columns) or (series, time, columns). Column names come
// from its attribute `columns` or a string dataset beside it; boundaries of series in one without
// an axis of series from an integer dataset `offsets` beside it; times from a time axis beside it.
// Throws DataError.
SeriesTable read_array(hid_t file, const std::string& path, const std::string& dataset,
                       const std::vector<std::string>& columns, Content content = Content::kAll);

// Reads one-dimensional datasets of equal length in one group as columns called after the datasets:
// of one series, or of those that an integer dataset `offsets` in the group cuts them into. Throws
// DataError.
SeriesTable read_column_datasets(hid_t file, const std::string& path,
                                 const std::vector<std::string>& datasets,
                                 const std::vector<std::string>& columns,
                                 Content content = Content::kAll);

}  // namespace longship::data
