#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "data/narrowing.h"

namespace longship::data {

// Several series over the same columns, in memory: rows of all series one after another, each in
// order of time.
struct SeriesTable {
  std::vector<std::string> columns;
  std::vector<std::string> series;  // names
  std::vector<std::string> files;   // (series) that they were read from; empty when from none
  std::vector<int64_t> offsets = {
      0};                          // (series + 1): series i has rows [offsets[i], offsets[i + 1])
  std::vector<int64_t> time;       // (rows) nanoseconds since 1970 UTC; empty when not known
  at::Tensor values;               // (rows, columns) float32, contiguous; NaN where missing
  std::vector<std::string> notes;  // one line each: what was recognised, left out, converted
  // One line for each column whose variation float32 does not hold; who trains on it is refused.
  std::vector<std::string> lost;

  int64_t rows() const { return offsets.back(); }
  int64_t series_count() const { return static_cast<int64_t>(series.size()); }
  std::string place(size_t index) const;  // "FILE: series 'NAME'", for messages
};

// What is read of a file: everything, or everything but the values, which stay undefined then.
enum class Content { kAll, kOutline };

// The nanoseconds between rows when they are the same within and over all series, else 0.
int64_t regular_step(const std::vector<int64_t>& offsets, const std::vector<int64_t>& time);

// Files in order from files, globs and folders (of a folder: *.h5, *.hdf5, *.nc and *.he5 by name).
// Throws DataError for one that leads to no file.
std::vector<std::string> expand_paths(const std::vector<std::string>& paths);

// Reads the named columns, in the given order (none: all), of HDF5 files: Longship series files,
// plain numeric datasets, NetCDF-4 variables, pandas frames. `dataset` names what to read in files
// that are not Longship's; empty: the only candidate. A series' name gets its file's name in front
// where two files have the same, and its path where the files' names are the same too. Throws
// DataError; also where float32 does not hold the variation of a column.
SeriesTable read_series(const std::vector<std::string>& paths, const std::string& dataset,
                        const std::vector<std::string>& columns);

// The same for one file, without expansion; columns that float32 does not hold are only listed.
SeriesTable read_series_from(const std::string& path, const std::string& dataset,
                             const std::vector<std::string>& columns,
                             Content content = Content::kAll);
// The same for who is inside guarded_hdf5() already.
SeriesTable read_series_unguarded(const std::string& path, const std::string& dataset,
                                  const std::vector<std::string>& columns, Content content);

// Lists the columns of a part of a table of which float32 loses the variation. `names`: of the
// columns that were narrowed; `where`: file and dataset.
void list_lost(SeriesTable& table, const std::vector<Narrowing>& narrowings,
               const std::vector<std::string>& names, const std::string& where);

// Positions of the wanted names (none wanted: of all). Throws DataError naming `where`, the nearest
// name and what there is; also when a wanted name stands there twice.
std::vector<int64_t> find_columns(const std::vector<std::string>& available,
                                  const std::vector<std::string>& wanted, const std::string& where);

// Names for a message, shortened after the first few: "a, b, c and 20 more".
std::string listed(const std::vector<std::string>& names, size_t most = 12);

}  // namespace longship::data
