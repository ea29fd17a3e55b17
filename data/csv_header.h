#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/csv_cell.h"
#include "data/csv_reader.h"

namespace longship::data {

// The first record of a CSV file and how the records below fit it.
class CsvHeader {
 public:
  // Reads the header. Throws DataError for a file without one or whose first record holds data.
  // With `no_header` the first record, which stays to be read, tells the count of columns, and they
  // are called c0, c1, ...
  CsvHeader(CsvReader& reader, const CellParser& cells, bool no_header = false);

  // Checks the count of fields of the current record. One empty field too many is accepted when
  // every record ends in a delimiter, one too few when only the header does. Throws DataError.
  void check_width(const CsvReader& reader);

  // Names by position; a column without a name is called column_N.
  const std::vector<std::string>& names() const { return names_; }
  // Position of a name, nothing when absent. Throws DataError when it stands there more than once.
  std::optional<size_t> find(const std::string& name) const;
  // Position of a name; throws DataError with the nearest one when absent.
  size_t require(const std::string& name) const;
  bool repeated(size_t position) const;
  // "FILE:1: the header has the name 'a' more than once, at positions 2, 3".
  std::string repetition(const std::string& name) const;
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  std::string path_;
  std::string place_;
  int64_t line_ = 1;
  bool no_header_ = false;
  std::vector<std::string> names_;
  std::vector<std::string> notes_;
  bool last_unnamed_ = false;
  enum class Ends { kUnknown, kEven, kRowsEndInDelimiter } ends_ = Ends::kUnknown;
};

}  // namespace longship::data
