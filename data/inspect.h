#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/library.h"
#include "data/series_store.h"

namespace longship::data {

// Statistics of one column over all rows that hold a finite value.
struct ColumnStatistics {
  std::string name;
  int64_t count = 0;    // finite values
  int64_t missing = 0;  // NaN
  int64_t infinite = 0;
  double least = 0;  // these four are 0 when count is
  double most = 0;
  double mean = 0;
  double deviation = 0;  // population
};

// One object of an HDF5 file.
struct InspectedObject {
  std::string path;
  std::string kind;  // "dataset", "group", "other", "dangling"
  std::string type;  // of a dataset: class, width and byte order in words
  std::string shape;
  std::string chunk;  // empty: not chunked
  std::vector<Filter> filters;
  int64_t stored_bytes = 0;
  std::string note;  // link target, or why it cannot be read here
};

struct InspectedSeries {
  std::string name;
  int64_t rows = 0;
  std::optional<int64_t> first_time;  // ns
  std::optional<int64_t> last_time;
};

struct FileInspection {
  std::string path;
  std::string format;  // "longship-series" or "hdf5"
  int64_t bytes = 0;
  std::vector<InspectedObject> objects;
  // What training takes of it: always for a series file; for another the reason why not, if so.
  bool readable = false;
  std::string reason;
  std::vector<std::string> columns;
  std::vector<InspectedSeries> series;
  int64_t rows = 0;
  int64_t step_ns = 0;                       // 0: irregular or unknown
  std::vector<ColumnStatistics> statistics;  // when asked for
  std::vector<std::string> notes;
};

// Looks into an HDF5 file; `dataset` as in DatasetSpec. Reads all values only with `statistics`.
// Objects that cannot be read are listed with the reason. Throws DataError when the file cannot be
// opened.
FileInspection inspect_file(const std::string& path, const std::string& dataset, bool statistics);

std::vector<ColumnStatistics> column_statistics(const SeriesTable& table);

}  // namespace longship::data
