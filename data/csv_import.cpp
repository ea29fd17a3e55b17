#include "data/csv_import.h"

#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "data/csv_rows.h"
#include "data/error.h"
#include "data/series_assembly.h"

namespace longship::data {
namespace {

void check_options(const std::vector<std::string>& paths, const CsvImportOptions& options) {
  if (paths.empty()) throw DataError("no CSV file is named");
  for (const std::string& path : paths) {
    std::error_code error;
    if (!std::filesystem::exists(path, error)) throw DataError(path + ": no such file");
    if (std::filesystem::is_directory(path, error)) {
      throw DataError(path + " is a folder; name its CSV files");
    }
  }
  std::set<std::string> seen;
  for (const std::string& name : options.columns) {
    if (!seen.insert(name).second) throw DataError("--columns names '" + name + "' twice");
    if (name == options.time_column || name == options.series_column) {
      throw DataError("--columns names '" + name + "', which is the time or series column");
    }
  }
}

}  // namespace

CsvImport import_csv(const std::vector<std::string>& paths, const CsvImportOptions& options) {
  check_options(paths, options);
  CsvImport result;
  CsvCollector collector(paths, options);
  for (const std::string& path : paths) collector.add_file(path);
  std::vector<std::string> notes;
  CsvRows rows = collector.take(result.report, notes);
  result.table = assemble_series(std::move(rows), options.strict, result.report);
  result.table.notes.insert(result.table.notes.begin(), notes.begin(), notes.end());
  return result;
}

}  // namespace longship::data
