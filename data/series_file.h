#pragma once

#include <hdf5.h>

#include <string>
#include <vector>

#include "data/series_store.h"
#include "data/series_writer.h"

namespace longship::data {

// Longship's own HDF5 layout (format "longship-series", version 1):
//   /values   (rows, columns) float32, chunked along time, checksums, no compression
//   /offsets  (series + 1) int64
//   /time     (rows) int64, nanoseconds since 1970 UTC; absent when not known, or replaced by the
//             root attributes `start` and `step` (the same for every series)
//   /series   (series) strings
//   root attributes: `format`, `version`, `columns` (or the dataset /columns when there are many,
//   because an attribute ends at 64 KiB) and, of regular series with /time, `step`

// Whether an open HDF5 file has this format.
bool is_series_file(hid_t file);

// What a series file says about itself, without its values.
struct SeriesFileHeader {
  std::vector<std::string> columns;
  std::vector<std::string> series;
  std::vector<int64_t> offsets;
  int64_t step = 0;  // nanoseconds, 0 when irregular or unknown
};

// Throws DataError for a newer version or parts that contradict each other.
SeriesFileHeader read_series_header(hid_t file, const std::string& path);

// Reads the named columns (none: all) of an open series file. Throws DataError.
SeriesTable read_series_file(hid_t file, const std::string& path,
                             const std::vector<std::string>& columns,
                             Content content = Content::kAll);

}  // namespace longship::data
