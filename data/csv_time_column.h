#pragma once

#include <optional>
#include <string>

#include "data/csv_cell.h"
#include "data/csv_import.h"

namespace longship::data {

// The column of the time, and how it is written.
struct TimeChoice {
  std::string name;
  std::string format;     // see parse_by_format(); empty: recognised cell by cell
  bool calendar = false;  // numbers that were recognised as dates, such as 2013010106
};

// The time column of a file: the one that the options name, or the only one whose cells are all
// stamps in the first records, or the only one of those that has a usual name, or the one whose
// numbers are all dates without marks that ascend within each series. Nothing when there is none
// or none is wanted. Throws DataError when several could be it, or when a column looks like the
// time, by its name or by a good part of its cells, and cannot be read as one: without time the
// rows would be another table.
std::optional<TimeChoice> choose_time_column(const std::string& path, char delimiter,
                                             const CsvImportOptions& options,
                                             const CellParser& cells);

// Whether a column is usually called so when it holds the time.
bool usual_time_name(const std::string& name);

// A column that looks like the time and is none.
struct BrokenTime {
  std::string name;
  std::string place;  // of the first cell that is none
  std::string text;   // of that cell
  int64_t bad = 0;
  int64_t cells = 0;  // that are not missing

  // Whether so many of its cells are times that it cannot be left out as text.
  bool mostly_time() const { return 5 * (cells - bad) >= cells && cells > bad; }
  [[noreturn]] void refuse() const;
};

}  // namespace longship::data
