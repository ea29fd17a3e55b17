#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/series_store.h"

namespace longship::data {

// As the time column: the rows are taken without time.
inline constexpr const char* kNoTimeColumn = "none";

// What the user says about CSV files; what is empty or 0 is recognised.
struct CsvImportOptions {
  std::string time_column;    // kNoTimeColumn: none, even where one is recognised
  std::string series_column;  // long format: rows of several series, told apart by this column
  std::vector<std::string> columns;  // to take, in this order; empty: every column of numbers
  char delimiter = 0;
  char decimal = 0;
  std::string time_format;                                 // see parse_by_format()
  std::string time_zone;                                   // of stamps without one; UTC when empty
  std::optional<std::vector<std::string>> missing_values;  // instead of default_missing_values()
  int64_t skip_lines = 0;                                  // lines before the header
  bool no_header = false;  // the first record holds values; columns are called c0, c1, ...
  bool strict = false;     // refuse unsorted or repeated rows, holes and irregular steps
};

// A stretch of absent rows.
struct Hole {
  std::string series;
  int64_t after = 0;  // stamp of the row before it
  int64_t rows = 0;
};

// What was taken, for the table that the user sees.
struct CsvImportReport {
  char delimiter = ',';
  char decimal = '.';
  std::string time_column;    // empty: none
  std::string series_column;  // empty: one series a file
  int64_t rows_read = 0;
  int64_t rows_moved = 0;     // that were not in order of time
  int64_t rows_repeated = 0;  // exact copies, dropped
  int64_t step_ns = 0;        // 0: irregular, of calendar months, or no time
  bool monthly = false;       // one row a month, on the same day
  bool holes_filled = false;
  int64_t hole_count = 0;
  int64_t hole_rows = 0;
  std::vector<Hole> first_holes;  // at most ten
  std::vector<int64_t> missing;   // per column of the table: missing cells in the rows read
  std::vector<int64_t> infinite;  // per column of the table
};

struct CsvImport {
  SeriesTable table;  // its notes say what was recognised, left out and repaired
  CsvImportReport report;
};

// Reads CSV files into series. Rows are sorted by time within a series; exact copies of rows are
// dropped; where every stamp lies on a regular grid, absent rows are added with missing values.
// Without a series column each file is one series, called after the file. Throws DataError naming
// file and line.
CsvImport import_csv(const std::vector<std::string>& paths, const CsvImportOptions& options);

}  // namespace longship::data
