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
  std::set<std::string> files;
  for (const std::string& path : paths) {
    std::error_code error;
    const auto status = std::filesystem::status(path, error);
    if (status.type() == std::filesystem::file_type::not_found) {
      throw DataError(path + ": no such file");
    }
    if (!std::filesystem::exists(status)) {
      throw DataError(path + " cannot be looked at: " + error.message() +
                      "; check the permissions of the folders above it");
    }
    if (std::filesystem::is_directory(status)) {
      throw DataError(path + " is a folder; name its CSV files");
    }
    // Read more than once: to recognise its dialect, for its rows, and for the place of an error.
    if (!std::filesystem::is_regular_file(status)) {
      throw DataError(path + " is a device or pipe; write it into a file first");
    }
    if (!files.insert(std::filesystem::weakly_canonical(path, error).string()).second) {
      throw DataError(path + " is named twice; its rows would count twice");
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
