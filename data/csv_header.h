#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "data/csv_cell.h"
#include "data/csv_import.h"
#include "data/csv_reader.h"

namespace longship::data {

// The first record of a CSV file and how the records below fit it.
class CsvHeader {
 public:
  // Reads the header. Throws DataError for a file without one or whose first record holds data.
  CsvHeader(CsvReader& reader, const CellParser& cells);

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
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  std::string path_;
  std::vector<std::string> names_;
  std::vector<std::string> notes_;
  bool last_unnamed_ = false;
  enum class Ends { kUnknown, kEven, kRowsEndInDelimiter } ends_ = Ends::kUnknown;
};

// The time column by the first records: the only one whose cells are all stamps, or the only one of
// those that has a usual name. Nothing when there is none. Throws DataError when several could be
// it.
std::optional<std::string> recognise_time_column(const std::string& path, char delimiter,
                                                 const CsvImportOptions& options,
                                                 const CellParser& cells);

// Whether a column is usually called so when it holds the time.
bool usual_time_name(const std::string& name);

}  // namespace longship::data
