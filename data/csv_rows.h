#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "data/csv_cell.h"
#include "data/csv_column.h"
#include "data/csv_dialect.h"
#include "data/csv_header.h"
#include "data/csv_import.h"
#include "data/csv_reader.h"
#include "data/csv_time_column.h"
#include "data/time_parser.h"

namespace longship::data {

// The rows of CSV files in the order in which they were read.
struct CsvRows {
  std::vector<std::string> columns;
  std::vector<float> values;       // (rows, columns), NaN where missing
  std::vector<int64_t> time;       // (rows) ns; empty without a time column
  std::vector<int32_t> series_of;  // (rows) index into `series`
  std::vector<std::string> series;
  std::vector<uint64_t> other_hash;  // (rows) of the cells that are neither time, series nor values
  std::vector<uint32_t> line;        // (rows) in its file
  std::vector<std::string> files;
  std::vector<int64_t> file_begin;         // first row of each file
  std::vector<std::string> other_columns;  // names of the columns that were left out, with values
  std::vector<std::string> clock_columns;  // of these, whose first text is a time of day
  std::vector<int64_t> missing;            // per column
  std::vector<int64_t> infinite;           // per column

  int64_t rows() const { return static_cast<int64_t>(line.size()); }
  std::string place(int64_t row) const;  // "FILE:LINE"
};

// Collects the rows of one file after another.
class CsvCollector {
 public:
  // Recognises dialect and time column from the first file. Throws DataError.
  CsvCollector(const std::vector<std::string>& paths, const CsvImportOptions& options);

  // Throws DataError naming file and line.
  void add_file(const std::string& path);

  // The rows with only the columns that are kept, in their order. Throws DataError when none is
  // left.
  CsvRows take(CsvImportReport& report, std::vector<std::string>& notes);

 private:
  void choose_columns(const CsvHeader& header);
  // Where the columns of a file are.
  struct Layout {
    std::vector<size_t> values;  // of each of columns_
    std::optional<size_t> time;
    std::optional<size_t> series;
    struct Other {
      size_t position = 0;
      uint64_t name_hash = 0;
    };
    std::vector<Other> others;  // that are none of these, by name: files may order them differently
    int32_t file_series = 0;    // where no column names the series
  };
  Layout layout_of(const CsvHeader& header);
  void add_row(const CsvReader& reader, const Layout& layout);
  int32_t series_index(const std::string& name);
  void settle_day_first();
  void check_time() const;
  void check_points() const;
  void note_time(const std::vector<size_t>& kept);

  const CsvImportOptions& options_;
  CsvDialect dialect_;
  CellParser cells_;
  std::optional<TimeChoice> time_choice_;
  TimeColumn time_;
  std::vector<CsvColumn> columns_;
  std::map<std::string, int32_t> series_numbers_;
  CsvRows rows_;
  std::vector<std::string> repeated_;  // names that stand in the header more than once
  std::vector<std::string> notes_;
};

}  // namespace longship::data
