#pragma once

#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "data/csv_import.h"
#include "data/inspect.h"

namespace longship::launcher {

// Whether a file is something else than HDF5 and looks like text, so that it is read as CSV.
bool is_text_file(const std::string& path);

// What `longship data` prints: tables for people, JSON objects for programs.
void print_import(std::ostream& out, const data::CsvImport& imported);
void print_inspection(std::ostream& out, const data::FileInspection& inspection);
void print_statistics(std::ostream& out, const std::vector<data::ColumnStatistics>& statistics);
nlohmann::json json_of(const data::FileInspection& inspection);
nlohmann::json json_of(const std::string& path, const data::CsvImport& imported, bool statistics);

}  // namespace longship::launcher
