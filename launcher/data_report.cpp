#include "launcher/data_report.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <sstream>
#include <string_view>

#include "data/csv_dialect.h"
#include "data/time_parser.h"

namespace longship::launcher {
namespace {

using nlohmann::json;

constexpr size_t kShown = 20;  // columns, series or objects of a list for people

std::string step_text(int64_t step_ns) {
  constexpr int64_t kSecond = 1'000'000'000;
  std::ostringstream text;
  if (step_ns % (86'400 * kSecond) == 0) {
    text << step_ns / (86'400 * kSecond) << " d";
  } else if (step_ns % (3600 * kSecond) == 0) {
    text << step_ns / (3600 * kSecond) << " h";
  } else if (step_ns % (60 * kSecond) == 0) {
    text << step_ns / (60 * kSecond) << " min";
  } else {
    text << static_cast<double>(step_ns) / static_cast<double>(kSecond) << " s";
  }
  return text.str();
}

void print_notes(std::ostream& out, const std::vector<std::string>& notes) {
  for (const std::string& note : notes) out << "note           " << note << "\n";
}

std::string columns_text(const std::vector<std::string>& columns) {
  return std::to_string(columns.size()) + ": " + data::listed(columns, kShown);
}

void print_counts(std::ostream& out, const char* what, const std::vector<std::string>& names,
                  const std::vector<int64_t>& counts) {
  std::vector<std::string> texts;
  for (size_t i = 0; i < names.size(); ++i) {
    if (counts[i] > 0) texts.push_back(names[i] + " " + std::to_string(counts[i]));
  }
  if (!texts.empty()) out << what << data::listed(texts, kShown) << "\n";
}

std::string filters_text(const std::vector<data::Filter>& filters) {
  std::string text;
  for (const data::Filter& filter : filters) {
    text += ", " + filter.name + " (" + std::to_string(filter.id) + ")" +
            (filter.usable ? "" : " NOT AVAILABLE HERE");
  }
  return text;
}

json json_of_statistics(const std::vector<data::ColumnStatistics>& statistics) {
  json all = json::array();
  for (const data::ColumnStatistics& column : statistics) {
    all.push_back({{"name", column.name},
                   {"count", column.count},
                   {"missing", column.missing},
                   {"infinite", column.infinite},
                   {"min", column.least},
                   {"max", column.most},
                   {"mean", column.mean},
                   {"std", column.deviation}});
  }
  return all;
}

json json_of_series(const std::vector<data::InspectedSeries>& series) {
  json all = json::array();
  for (const data::InspectedSeries& one : series) {
    json entry = {{"name", one.name}, {"rows", one.rows}};
    if (one.first_time) {
      entry["first_time"] = data::format_time(*one.first_time);
      entry["last_time"] = data::format_time(*one.last_time);
    }
    all.push_back(entry);
  }
  return all;
}

}  // namespace

bool is_text_file(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return false;
  std::array<char, 4096> head{};
  std::ifstream stream(path, std::ios::binary);
  stream.read(head.data(), head.size());
  const std::string_view seen(head.data(), static_cast<size_t>(stream.gcount()));
  if (seen.starts_with("\x89HDF") || seen.starts_with("CDF")) return false;
  // UTF-16 text has zero bytes; the CSV reader refuses it by name.
  const bool utf16 = seen.starts_with("\xff\xfe") || seen.starts_with("\xfe\xff");
  const std::string suffix = std::filesystem::path(path).extension().string();
  const bool named = suffix == ".csv" || suffix == ".tsv" || suffix == ".txt";
  return utf16 || named;
}

void print_import(std::ostream& out, const data::CsvImport& imported) {
  const data::CsvImportReport& report = imported.report;
  const data::SeriesTable& table = imported.table;
  out << "delimiter      " << data::delimiter_name(report.delimiter) << "\n"
      << "decimal mark   " << report.decimal << "\n"
      << "time column    " << (report.time_column.empty() ? "none" : report.time_column) << "\n"
      << "step           "
      << (report.monthly          ? "1 calendar month"
          : report.step_ns > 0    ? step_text(report.step_ns)
          : table.time.size() < 2 ? "unknown"
                                  : "varies")
      << "\n"
      << "series         " << table.series_count() << ": " << data::listed(table.series, kShown)
      << "\n"
      << "columns        " << columns_text(table.columns) << "\n"
      << "rows           " << table.rows() << " (" << report.rows_read << " read)\n";
  if (!table.time.empty()) {
    const auto [first, last] = std::minmax_element(table.time.begin(), table.time.end());
    out << "from, to       " << data::format_time(*first) << ", " << data::format_time(*last)
        << "\n";
  }
  if (report.hole_count > 0) {
    out << "holes          " << report.hole_count << " of together " << report.hole_rows
        << " rows, " << (report.holes_filled ? "filled with missing values" : "not filled") << "\n";
  }
  print_counts(out, "missing cells  ", table.columns, report.missing);
  print_counts(out, "infinite cells ", table.columns, report.infinite);
  print_notes(out, table.notes);
}

void print_statistics(std::ostream& out, const std::vector<data::ColumnStatistics>& statistics) {
  size_t width = 6;
  for (const auto& column : statistics) width = std::max(width, column.name.size());
  const auto name_width = static_cast<int>(std::min<size_t>(width, 40)) + 2;
  out << std::left << std::setw(name_width) << "column" << std::right;
  for (const char* title : {"count", "missing", "infinite", "min", "max", "mean", "std"}) {
    out << std::setw(14) << title;
  }
  out << "\n";
  for (const auto& column : statistics) {
    out << std::left << std::setw(name_width) << column.name << std::right << std::setw(14)
        << column.count << std::setw(14) << column.missing << std::setw(14) << column.infinite
        << std::setw(14) << column.least << std::setw(14) << column.most << std::setw(14)
        << column.mean << std::setw(14) << column.deviation << "\n";
  }
}

void print_inspection(std::ostream& out, const data::FileInspection& inspection) {
  out << "file           " << inspection.path << ", " << inspection.bytes << " bytes\n"
      << "format         "
      << (inspection.format == "hdf5" ? "HDF5, not a series file" : "Longship series file") << "\n";
  for (const data::InspectedObject& object : inspection.objects) {
    out << "  " << object.path << "  " << object.kind;
    if (!object.type.empty()) out << " " << object.shape << " " << object.type;
    if (!object.chunk.empty()) out << ", chunks (" << object.chunk << ")";
    out << filters_text(object.filters);
    if (!object.note.empty()) out << "  [" << object.note << "]";
    out << "\n";
  }
  if (!inspection.readable) {
    out << "not taken      " << inspection.reason << "\n";
    return;
  }
  out << "columns        " << columns_text(inspection.columns) << "\n"
      << "rows           " << inspection.rows << "\n"
      << "step           "
      << (inspection.step_ns > 0 ? step_text(inspection.step_ns) : "varies or unknown") << "\n"
      << "series         " << inspection.series.size() << "\n";
  for (size_t i = 0; i < inspection.series.size() && i < kShown; ++i) {
    const data::InspectedSeries& series = inspection.series[i];
    out << "  " << series.name << "  " << series.rows << " rows";
    if (series.first_time) {
      out << ", " << data::format_time(*series.first_time) << " to "
          << data::format_time(*series.last_time);
    }
    out << "\n";
  }
  if (inspection.series.size() > kShown) {
    out << "  and " << inspection.series.size() - kShown << " more\n";
  }
  print_notes(out, inspection.notes);
  if (!inspection.statistics.empty()) print_statistics(out, inspection.statistics);
}

json json_of(const data::FileInspection& inspection) {
  json result = {{"path", inspection.path},       {"format", inspection.format},
                 {"bytes", inspection.bytes},     {"readable", inspection.readable},
                 {"columns", inspection.columns}, {"rows", inspection.rows},
                 {"step_ns", inspection.step_ns}, {"series", json_of_series(inspection.series)},
                 {"notes", inspection.notes},     {"objects", json::array()}};
  if (!inspection.readable) result["reason"] = inspection.reason;
  for (const data::InspectedObject& object : inspection.objects) {
    json entry = {{"path", object.path}, {"kind", object.kind}, {"note", object.note}};
    if (object.kind == "dataset") {
      entry["type"] = object.type;
      entry["shape"] = object.shape;
      entry["chunk"] = object.chunk;
      entry["stored_bytes"] = object.stored_bytes;
      entry["filters"] = json::array();
      for (const data::Filter& filter : object.filters) {
        entry["filters"].push_back(
            {{"id", filter.id}, {"name", filter.name}, {"usable", filter.usable}});
      }
    }
    result["objects"].push_back(entry);
  }
  if (!inspection.statistics.empty()) {
    result["statistics"] = json_of_statistics(inspection.statistics);
  }
  return result;
}

json json_of(const std::string& path, const data::CsvImport& imported, bool statistics) {
  const data::CsvImportReport& report = imported.report;
  json holes = json::array();
  for (const data::Hole& hole : report.first_holes) {
    holes.push_back(
        {{"series", hole.series}, {"after", data::format_time(hole.after)}, {"rows", hole.rows}});
  }
  json missing = json::object();
  json infinite = json::object();
  for (size_t i = 0; i < imported.table.columns.size(); ++i) {
    missing[imported.table.columns[i]] = report.missing[i];
    infinite[imported.table.columns[i]] = report.infinite[i];
  }
  json result = {{"path", path},
                 {"format", "csv"},
                 {"readable", true},
                 {"delimiter", std::string(1, report.delimiter)},
                 {"decimal", std::string(1, report.decimal)},
                 {"time_column", report.time_column},
                 {"columns", imported.table.columns},
                 {"rows", imported.table.rows()},
                 {"rows_read", report.rows_read},
                 {"rows_moved", report.rows_moved},
                 {"rows_repeated", report.rows_repeated},
                 {"step_ns", report.step_ns},
                 {"monthly", report.monthly},
                 {"series", imported.table.series},
                 {"holes",
                  {{"count", report.hole_count},
                   {"rows", report.hole_rows},
                   {"filled", report.holes_filled},
                   {"first", holes}}},
                 {"missing", missing},
                 {"infinite", infinite},
                 {"notes", imported.table.notes}};
  if (statistics)
    result["statistics"] = json_of_statistics(data::column_statistics(imported.table));
  return result;
}

}  // namespace longship::launcher
