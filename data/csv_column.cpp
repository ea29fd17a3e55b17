#include "data/csv_column.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "data/error.h"
#include "data/number_text.h"
#include "data/time_format.h"
#include "data/time_parser.h"

namespace longship::data {
namespace {

// From here on float32 does not hold every whole number.
constexpr double kExactWhole = 16'777'216;

bool all_digits(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

void PointUse::see(std::string_view cell, const CsvReader& reader) {
  const bool sign = !cell.empty() && (cell.front() == '-' || cell.front() == '+');
  if (sign) cell.remove_prefix(1);
  const size_t at = cell.find('.');
  if (at == std::string_view::npos) {
    // -999 may stand for a missing value.
    const bool group = !sign && !cell.empty() && cell.size() <= 3 && cell.front() != '0';
    plain = plain || (group && all_digits(cell));
    return;
  }
  // The first group never starts with a zero.
  const bool grouped = at >= 1 && at <= 3 && cell.size() - at == 4 && cell.front() != '0' &&
                       all_digits(cell.substr(at + 1));
  decimal = decimal || !grouped;
  if (!grouped || !place.empty()) return;
  place = reader.place();
  text = cell;
}

float CsvColumn::value_of(std::string_view cell, const CellParser& cells, const CsvReader& reader,
                          int64_t row) {
  constexpr float kMissing = std::numeric_limits<float>::quiet_NaN();
  if (state == State::kText) {
    count_stamp(cell, cells, reader);
    return kMissing;
  }
  double value = 0;
  const CellKind kind = cells.parse(cell, value);
  if (kind == CellKind::kMissing) {
    ++missing;
    return kMissing;
  }
  if (kind == CellKind::kNumber) {
    state = State::kNumbers;
    if (watch_points) points.see(cell, reader);
    const float narrow = narrowing.narrow(value, row);
    if (std::isinf(value)) ++infinite;
    if (std::isinf(narrow) && std::isfinite(value)) {
      throw DataError(reader.place() + ", column '" + name + "': " + shown(cell) +
                      " is beyond the range of float32; scale the column");
    }
    rounded = rounded || (std::abs(value) > kExactWhole && std::isfinite(value) &&
                          value == std::floor(value) && double{narrow} != value);
    return narrow;
  }
  // A column that starts with text holds text. Anything else that is no number is a fault, not
  // text.
  const bool text_column = state == State::kUnknown && kind == CellKind::kText && !requested;
  if (text_column) {
    state = State::kText;
    text_place = reader.place();
    text = shown(cell);
    count_stamp(cell, cells, reader);
    return kMissing;
  }
  const std::string what = reader.place() + ", column '" + name + "': '" + shown(cell) + "' is ";
  if (const auto format = likely_time_format(cell)) {
    throw DataError(what + "no number but may be a date; if the column is the time, give " +
                    "--time-column '" + name + "' and --time-format '" + *format +
                    "', else repair it or choose other --columns");
  }
  if (kind == CellKind::kNumberLike) {
    throw DataError(
        what + "no plain number with the decimal mark " + cells.decimal() +
        " (percent and currency signs and marks that group thousands are not read); remove "
        "them, give --decimal, or choose other --columns");
  }
  throw DataError(what +
                  "not a number; repair it, add it to --missing-values, or choose other --columns");
}

// The first cells of a column of times may hold other text.
void CsvColumn::count_stamp(std::string_view cell, const CellParser& cells,
                            const CsvReader& reader) {
  double value = 0;
  const bool stamp = may_be_time && parse_stamp(cell);
  if (!may_be_time || (!stamp && cells.parse(cell, value) == CellKind::kMissing)) return;
  ++time.cells;
  if (stamp || time.bad++ > 0) return;
  time.name = name;
  time.place = reader.place();
  time.text = cell;
}

void CsvColumn::refuse_lost(const LostChange& change, const std::string& place_before,
                            const std::string& place) const {
  const bool epoch = may_be_time && parse_epoch(number_text(change.value)).has_value();
  throw DataError(place_before + " and " + place + ", column '" + name + "': " + change.text() +
                  "; subtract an offset from the column or rescale it before the import, or take "
                  "other columns by --columns" +
                  (epoch ? "; if it is the time, give --time-column '" + name + "'" : ""));
}

}  // namespace longship::data
