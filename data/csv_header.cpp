#include "data/csv_header.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>
#include <string_view>
#include <utility>

#include "data/error.h"
#include "data/series_store.h"
#include "data/time_parser.h"

namespace longship::data {
namespace {

constexpr int kSampleRecords = 100;

std::string numbered_column(size_t position) {
  std::string name = "column_";
  return name += std::to_string(position + 1);
}

// A header whose every cell is a value, and one of them no whole number, is a row of data.
bool holds_data(const std::vector<std::string>& names, const CellParser& cells) {
  bool not_whole = false;
  for (const std::string& name : names) {
    double value = 0;
    const bool stamp = parse_stamp(name).has_value();
    if (!stamp && cells.parse(name, value) != CellKind::kNumber) return false;
    not_whole = not_whole || stamp || name.find(cells.decimal()) != std::string::npos;
  }
  return not_whole;
}

}  // namespace

CsvHeader::CsvHeader(CsvReader& reader, const CellParser& cells) : path_(reader.path()) {
  if (!reader.next()) throw DataError(path_ + " is empty; it needs a header and rows");
  names_.assign(reader.fields().begin(), reader.fields().end());
  if (holds_data(names_, cells)) {
    throw DataError(reader.place() + ": the first row holds data ('" + shown(names_.front()) +
                    "'), not names; put a header row with the names of the columns in front");
  }
  last_unnamed_ = names_.size() > 1 && names_.back().empty();
  for (size_t i = 0; i < names_.size(); ++i) {
    if (names_[i].empty()) names_[i] = numbered_column(i);
  }
}

void CsvHeader::check_width(const CsvReader& reader) {
  const size_t found = reader.fields().size();
  if (ends_ == Ends::kUnknown) {
    ends_ = Ends::kEven;
    if (found == names_.size() + 1 && reader.fields().back().empty()) {
      ends_ = Ends::kRowsEndInDelimiter;
      notes_.push_back(path_ +
                       ": every row ends in a delimiter; the empty field behind it is dropped");
    } else if (found + 1 == names_.size() && last_unnamed_) {
      names_.pop_back();
      notes_.push_back(path_ +
                       ": the header ends in a delimiter; the empty name behind it is dropped");
    } else if (names_.size() == 1 && found > 1) {
      throw DataError(reader.place() + ": " + std::to_string(found) +
                      " fields, but the first line, '" + shown(names_.front()) +
                      "', has 1; if that is a title above the header, give "
                      "--skip-lines 1, else give --delimiter");
    }
  }
  const bool ends = ends_ == Ends::kRowsEndInDelimiter;
  const size_t expected = names_.size() + (ends ? 1 : 0);
  if (found == expected && (!ends || reader.fields().back().empty())) return;
  throw DataError(reader.place() + ": " + std::to_string(found) + " fields found, " +
                  std::to_string(expected) + " expected" +
                  (ends ? " with the last one empty, as in the first row" : " as in the header") +
                  "; repair the row, or quote a field that holds the delimiter");
}

std::optional<size_t> CsvHeader::find(const std::string& name) const {
  const auto first = std::find(names_.begin(), names_.end(), name);
  if (first == names_.end()) return std::nullopt;
  return static_cast<size_t>(find_columns(names_, {name}, path_).front());
}

size_t CsvHeader::require(const std::string& name) const {
  return static_cast<size_t>(find_columns(names_, {name}, path_).front());
}

bool CsvHeader::repeated(size_t position) const {
  return std::count(names_.begin(), names_.end(), names_[position]) > 1;
}

bool usual_time_name(const std::string& name) {
  // The last two lines are German and French.
  static constexpr std::array<std::string_view, 20> kNames = {
      "time",      "date",       "datetime", "timestamp", "ds",         "date_time",   "time_hour",
      "index",     "week",       "datum",    "zeit",      "uhrzeit",    "zeitstempel", "zeitpunkt",
      "datumzeit", "datum_zeit", "heure",    "jour",      "horodatage", "date_heure"};
  std::string lower = name;
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return std::find(kNames.begin(), kNames.end(), lower) != kNames.end();
}

std::optional<std::string> recognise_time_column(const std::string& path, char delimiter,
                                                 const CsvImportOptions& options,
                                                 const CellParser& cells) {
  CsvReader reader(path, delimiter, options.skip_lines);
  CsvHeader header(reader, cells);
  struct Seen {
    int cells = 0;          // that are not missing
    int stamps = 0;         // of those, that are times
    std::string first_bad;  // place and text of the first one that is none
  };
  std::vector<Seen> seen(header.names().size());
  for (int record = 0; record < kSampleRecords && reader.next(); ++record) {
    header.check_width(reader);
    for (size_t i = 0; i < header.names().size(); ++i) {
      double value = 0;
      const std::string_view cell = reader.fields()[i];
      if (cells.parse(cell, value) == CellKind::kMissing) continue;
      const bool stamp = options.time_format.empty()
                             ? parse_stamp(cell).has_value()
                             : parse_by_format(cell, options.time_format).has_value();
      ++seen[i].cells;
      seen[i].stamps += stamp ? 1 : 0;
      if (!stamp && seen[i].first_bad.empty()) {
        seen[i].first_bad = reader.place() + ", column '" + header.names()[i] + "': '" +
                            std::string(cell.substr(0, 40)) + "'";
      }
    }
  }
  std::vector<std::string> candidates;
  for (size_t i = 0; i < header.names().size(); ++i) {
    const bool usable = seen[i].stamps > 0 && seen[i].stamps == seen[i].cells &&
                        header.names()[i] != options.series_column;
    if (usable && std::find(options.columns.begin(), options.columns.end(), header.names()[i]) ==
                      options.columns.end()) {
      candidates.push_back(header.names()[i]);
    }
  }
  if (candidates.size() > 1) {
    std::vector<std::string> usual;
    std::copy_if(candidates.begin(), candidates.end(), std::back_inserter(usual), usual_time_name);
    if (usual.size() != 1) {
      throw DataError(path + ": the time may be in " + listed(candidates) + "; give --time-column");
    }
    candidates = std::move(usual);
  }
  if (!candidates.empty()) return candidates.front();
  // A column of times with a slip in it must not be left out without a word.
  for (const Seen& column : seen) {
    if (2 * column.stamps > column.cells && column.stamps < column.cells) {
      throw DataError(column.first_bad +
                      " is no time, though most cells of the column are; correct "
                      "it, or name another column by --time-column");
    }
  }
  if (!options.time_format.empty()) {
    throw DataError(path + ": no column holds times of --time-format '" + options.time_format +
                    "'; correct it, or give --time-column");
  }
  return std::nullopt;
}

}  // namespace longship::data
