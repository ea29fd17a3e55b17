#include "data/csv_header.h"

#include <algorithm>
#include <fstream>
#include <string_view>

#include "data/error.h"
#include "data/series_store.h"
#include "data/time_parser.h"

namespace longship::data {
namespace {

constexpr size_t kShown = 6;  // cells and names in a message

std::string numbered_column(size_t position) {
  std::string name = "column_";
  return name += std::to_string(position + 1);
}

// A first record without a single name: numbers, stamps and missing values. An empty cell in front
// of whole numbers is a header that pandas writes, of an index without a name and columns without
// names.
bool holds_data(const std::vector<std::string_view>& fields, const CellParser& cells) {
  bool whole = true;
  bool values = false;
  for (size_t i = 0; i < fields.size(); ++i) {
    double value = 0;
    const bool stamp = parse_stamp(fields[i]).has_value();
    const CellKind kind = stamp ? CellKind::kText : cells.parse(fields[i], value);
    if (!stamp && kind != CellKind::kNumber && kind != CellKind::kMissing) return false;
    values = values || stamp || kind == CellKind::kNumber;
    const bool leading = i == 0 && fields[i].empty();
    whole = whole && !stamp && (kind == CellKind::kNumber || leading) &&
            fields[i].find(cells.decimal()) == std::string_view::npos;
  }
  return values && !(whole && fields.front().empty());
}

// 0, 1, 2, 3, ...: the names that pandas gives columns without names. In a shorter line they may as
// well be values.
bool numbers_columns(const std::vector<std::string_view>& fields) {
  constexpr size_t kLeast = 4;
  if (fields.size() < kLeast) return false;
  for (size_t i = 0; i < fields.size(); ++i) {
    if (fields[i] != std::to_string(i)) return false;
  }
  return true;
}

// Comment lines from this one on, counted with the lines in front of them.
int64_t last_comment(const std::string& path, int64_t from) {
  std::ifstream file(path);
  std::string text;
  int64_t line = 0;
  while (std::getline(file, text)) {
    ++line;
    if (line >= from && !text.starts_with('#')) return line - 1;
  }
  return line;
}

}  // namespace

CsvHeader::CsvHeader(CsvReader& reader, const CellParser& cells, bool no_header)
    : path_(reader.path()), no_header_(no_header) {
  if (!reader.next()) throw DataError(path_ + " is empty; it needs a header and rows");
  place_ = reader.place();
  line_ = reader.line();
  const std::vector<std::string_view>& fields = reader.fields();
  if (no_header) {
    for (size_t i = 0; i < fields.size(); ++i) {
      std::string name = "c";
      names_.push_back(name += std::to_string(i));
    }
    reader.repeat();
    return;
  }
  if (fields.front().starts_with("sep=")) {
    throw DataError(place_ + ": the line '" + shown(fields.front()) +
                    "...' tells spreadsheets the delimiter and is no header; give --skip-lines " +
                    std::to_string(reader.line()));
  }
  if (numbers_columns(fields)) {
    notes_.push_back(place_ +
                     ": the first line, 0, 1, 2, 3, ..., is taken as the names of columns");
  } else if (holds_data(fields, cells)) {
    std::vector<std::string> texts;
    texts.reserve(fields.size());
    for (const std::string_view field : fields) texts.push_back("'" + shown(field) + "'");
    throw DataError(place_ + ": the first line holds values, not names: " + listed(texts, kShown) +
                    "; put a line with the names of the columns in front, or give --no-header to "
                    "call them c0, c1, ... (--skip-lines 1 --no-header where these are numbers of "
                    "the columns)");
  }
  names_.assign(fields.begin(), fields.end());
  last_unnamed_ = names_.size() > 1 && names_.back().empty();
  for (size_t i = 0; i < names_.size(); ++i) {
    if (names_[i].empty()) names_[i] = numbered_column(i);
  }
}

void CsvHeader::check_width(const CsvReader& reader) {
  const size_t found = reader.fields().size();
  const bool dropped = found == names_.size() + 1 && reader.fields().back().empty();
  if (found > names_.size() && !dropped && !no_header_ && names_.front().starts_with('#')) {
    throw DataError(reader.place() + ": " + std::to_string(found) +
                    " fields, but the first line, '" + shown(names_.front()) + "', has " +
                    std::to_string(names_.size()) +
                    "; if that is a comment above the header, give --skip-lines " +
                    std::to_string(last_comment(path_, line_)));
  }
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
    } else if (names_.size() == 1 && found > 1 && !no_header_) {
      throw DataError(reader.place() + ": " + std::to_string(found) +
                      " fields, but the first line, '" + shown(names_.front()) +
                      "', has 1; if that is a title above the header, give "
                      "--skip-lines 1, else give --delimiter");
    }
  }
  const bool ends = ends_ == Ends::kRowsEndInDelimiter;
  const size_t expected = names_.size() + (ends ? 1 : 0);
  if (found == expected && (!ends || reader.fields().back().empty())) return;
  const bool comment = reader.fields().front().starts_with('#');
  throw DataError(reader.place() + ": " + std::to_string(found) + " fields found, " +
                  std::to_string(expected) + " expected" +
                  (ends         ? " with the last one empty, as in the first row"
                   : no_header_ ? " as in the first line"
                                : " as in the header") +
                  (comment ? "; the line looks like a comment: remove it"
                           : "; repair the row, or quote a field that holds the delimiter"));
}

std::optional<size_t> CsvHeader::find(const std::string& name) const {
  const auto first = std::find(names_.begin(), names_.end(), name);
  if (first == names_.end()) return std::nullopt;
  return require(name);
}

size_t CsvHeader::require(const std::string& name) const {
  const auto first = std::find(names_.begin(), names_.end(), name);
  if (first != names_.end() && repeated(static_cast<size_t>(first - names_.begin()))) {
    throw DataError(repetition(name) + "; give each column its own name, or leave these out");
  }
  return static_cast<size_t>(find_columns(names_, {name}, path_).front());
}

bool CsvHeader::repeated(size_t position) const {
  return std::count(names_.begin(), names_.end(), names_[position]) > 1;
}

std::string CsvHeader::repetition(const std::string& name) const {
  std::vector<std::string> positions;
  for (size_t i = 0; i < names_.size(); ++i) {
    if (names_[i] == name) positions.push_back(std::to_string(i + 1));
  }
  return place_ + ": the header has the name '" + name + "' more than once, at positions " +
         listed(positions);
}

}  // namespace longship::data
