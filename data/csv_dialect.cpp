#include "data/csv_dialect.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>

#include "data/csv_reader.h"
#include "data/error.h"

namespace longship::data {
namespace {

constexpr int kSampleRecords = 1000;

// Field counts of the first records when cut at one delimiter.
struct Cut {
  char delimiter = 0;
  size_t header = 0;
  bool even = true;  // every record has the header's count, or one more (a delimiter at its end)
  bool wide_rows = false;  // a later record has more than one field
};

Cut cut_with(const std::string& path, char delimiter, int64_t skip_lines) {
  CsvReader reader(path, delimiter, skip_lines);
  Cut cut;
  cut.delimiter = delimiter;
  for (int record = 0; record < kSampleRecords && reader.next(); ++record) {
    const size_t count = reader.fields().size();
    if (record == 0) {
      cut.header = count;
    } else {
      cut.even =
          cut.even && (count == cut.header || count == cut.header + 1 || count + 1 == cut.header);
      cut.wide_rows = cut.wide_rows || count > 1;
    }
  }
  return cut;
}

char recognise_delimiter(const std::string& path, int64_t skip_lines) {
  std::vector<Cut> several;  // that cut the header
  std::vector<Cut> rows_only;
  std::string names;
  std::optional<DataError> unreadable;
  for (const char delimiter : {',', ';', '\t', '|'}) {
    // Text behind a quote is an error under one delimiter and right under another.
    try {
      const Cut cut = cut_with(path, delimiter, skip_lines);
      if (cut.header > 1) several.push_back(cut);
      if (cut.header == 1 && cut.wide_rows) rows_only.push_back(cut);
    } catch (const DataError& error) {
      unreadable = error;
    }
  }
  if (several.empty()) {
    if (unreadable && rows_only.empty()) throw *unreadable;
    return rows_only.size() == 1 ? rows_only.front().delimiter : ',';
  }
  if (several.size() == 1) return several.front().delimiter;
  std::vector<Cut> even;
  std::copy_if(several.begin(), several.end(), std::back_inserter(even),
               [](const Cut& cut) { return cut.even; });
  if (even.size() == 1) return even.front().delimiter;
  for (const Cut& cut : several) {
    names += (names.empty() ? "" : " or ") + delimiter_name(cut.delimiter);
  }
  throw DataError(path + ": the delimiter may be " + names + "; give --delimiter");
}

bool all_digits(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// Digits, one mark, digits, perhaps with a sign and an exponent.
bool has_decimal(std::string_view cell, char mark) {
  if (!cell.empty() && (cell.front() == '-' || cell.front() == '+')) cell.remove_prefix(1);
  const size_t at = cell.find(mark);
  if (at == std::string_view::npos || at == 0) return false;
  std::string_view after = cell.substr(at + 1);
  after = after.substr(0, after.find_first_of("eE"));
  return all_digits(cell.substr(0, at)) && all_digits(after);
}

bool may_be_thousands(std::string_view cell, char mark) {
  if (!cell.empty() && (cell.front() == '-' || cell.front() == '+')) cell.remove_prefix(1);
  const size_t at = cell.find(mark);
  return at >= 1 && at <= 3 && cell.size() - at == 4 && cell.front() != '0';
}

char recognise_decimal(const std::string& path, char delimiter, int64_t skip_lines,
                       bool no_header) {
  CsvReader reader(path, delimiter, skip_lines);
  std::string comma_place;
  std::string comma_text;
  std::string point_place;
  std::string point_text;
  bool sure = false;  // a comma that cannot group thousands
  if (!no_header) reader.next();
  for (int record = 0; record < kSampleRecords && reader.next(); ++record) {
    for (const std::string_view cell : reader.fields()) {
      if (has_decimal(cell, ',')) {
        if (comma_place.empty()) {
          comma_place = reader.place();
          comma_text = cell;
        }
        sure = sure || !may_be_thousands(cell, ',');
      } else if (point_place.empty() && has_decimal(cell, '.')) {
        point_place = reader.place();
        point_text = cell;
      }
    }
  }
  if (comma_place.empty()) return '.';
  if (!point_place.empty()) {
    throw DataError(
        comma_place + " has the number " + comma_text + " and " + point_place + " the number " +
        point_text +
        ": the decimal mark may be comma or point; give --decimal, and remove thousands "
        "marks");
  }
  if (!sure) {
    throw DataError(comma_place + ": the comma in " + comma_text +
                    " may be a decimal or a thousands mark; give --decimal");
  }
  return ',';
}

}  // namespace

CsvDialect recognise_dialect(const std::string& path, char delimiter, char decimal,
                             int64_t skip_lines, bool no_header) {
  CsvDialect dialect;
  dialect.delimiter = delimiter != 0 ? delimiter : recognise_delimiter(path, skip_lines);
  dialect.decimal =
      decimal != 0 ? decimal : recognise_decimal(path, dialect.delimiter, skip_lines, no_header);
  return dialect;
}

std::string delimiter_name(char delimiter) {
  switch (delimiter) {
    case ',':
      return "comma";
    case ';':
      return "semicolon";
    case '\t':
      return "tab";
    case '|':
      return "bar";
    default:
      return {'\'', delimiter, '\''};
  }
}

}  // namespace longship::data
