#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "data/csv_cell.h"
#include "data/csv_reader.h"
#include "data/csv_time_column.h"
#include "data/narrowing.h"

namespace longship::data {

// Whether the points in a column's numbers may group thousands instead of being decimal marks.
struct PointUse {
  std::string place, text;  // of the first number whose point may group: "1.005"
  bool decimal = false;     // some point cannot
  bool plain = false;       // some numbers are below 1000 and have no point: "995"

  void see(std::string_view cell, const CsvReader& reader);
};

// A column of a CSV file that is taken as values, or turns out to hold text.
struct CsvColumn {
  std::string name;
  bool requested = false;    // by the user: must hold numbers
  bool may_be_time = false;  // no other column is the time
  enum class State { kUnknown, kNumbers, kText } state = State::kUnknown;
  std::string text_place;  // where text was met first
  std::string text;
  int64_t missing = 0;
  int64_t infinite = 0;
  bool rounded = false;  // whole numbers that float32 does not hold exactly
  Narrowing narrowing;
  bool watch_points = false;  // in this file points may group thousands
  PointUse points;
  BrokenTime time;  // of text, where it may be the time: how many of the cells are none

  // The value of the column's cell in the reader's record; NaN where missing and of text. Throws
  // DataError for what is no number in a column of numbers.
  float value_of(std::string_view cell, const CellParser& cells, const CsvReader& reader,
                 int64_t row);

  // Throws DataError for a column that float32 does not hold.
  [[noreturn]] void refuse_lost(const LostChange& change, const std::string& place_before,
                                const std::string& place) const;

 private:
  void count_stamp(std::string_view cell, const CellParser& cells, const CsvReader& reader);
};

}  // namespace longship::data
