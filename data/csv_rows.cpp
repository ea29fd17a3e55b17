#include "data/csv_rows.h"

#include <xxhash.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string_view>
#include <utility>

#include "data/error.h"
#include "data/time_format.h"

namespace longship::data {
namespace {

const std::vector<std::string>& missing_values(const CsvImportOptions& options) {
  return options.missing_values ? *options.missing_values : default_missing_values();
}

}  // namespace

std::string CsvRows::place(int64_t row) const {
  const auto after = std::upper_bound(file_begin.begin(), file_begin.end(), row);
  return files[static_cast<size_t>(after - file_begin.begin() - 1)] + ":" +
         std::to_string(line[static_cast<size_t>(row)]);
}

CsvCollector::CsvCollector(const std::vector<std::string>& paths, const CsvImportOptions& options)
    : options_(options),
      dialect_(recognise_dialect(paths.front(), options.delimiter, options.decimal,
                                 options.skip_lines, options.no_header)),
      cells_(dialect_.decimal, missing_values(options)),
      time_choice_(choose_time_column(paths.front(), dialect_.delimiter, options, cells_)),
      time_(time_choice_ ? time_choice_->format : options.time_format, options.time_zone,
            !options.time_column.empty()) {}

// The columns of values, decided by the first file: those asked for, or all that may hold numbers.
void CsvCollector::choose_columns(const CsvHeader& header) {
  const auto take = [&](const std::string& name, bool requested) {
    CsvColumn column;
    column.name = name;
    column.requested = requested;
    column.may_be_time = !time_choice_ && options_.time_column != kNoTimeColumn;
    // A comma between fields is no decimal mark, and where the decimal mark is no comma, points do
    // not group.
    column.watch_points =
        options_.decimal == 0 && dialect_.decimal == '.' && dialect_.delimiter != ',';
    columns_.push_back(column);
  };
  for (const std::string& name : options_.columns) {
    header.require(name);
    take(name, true);
  }
  if (!columns_.empty()) return;
  std::set<std::string> repeated;
  for (size_t i = 0; i < header.names().size(); ++i) {
    const std::string& name = header.names()[i];
    const bool time = time_choice_ && name == time_choice_->name;
    if (time || name == options_.series_column) continue;
    if (!header.repeated(i)) {
      take(name, false);
    } else if (repeated.insert(name).second) {
      repeated_.push_back(header.repetition(name));
    }
  }
  for (const std::string& repetition : repeated_) {
    notes_.push_back(repetition + "; they are left out, give each column its own name");
  }
}

int32_t CsvCollector::series_index(const std::string& name) {
  const auto [found, added] =
      series_numbers_.emplace(name, static_cast<int32_t>(series_numbers_.size()));
  if (added) rows_.series.push_back(name);
  return found->second;
}

void CsvCollector::add_file(const std::string& path) {
  const CsvDialect dialect = recognise_dialect(path, options_.delimiter, options_.decimal,
                                               options_.skip_lines, options_.no_header);
  if (dialect.delimiter != dialect_.delimiter || dialect.decimal != dialect_.decimal) {
    throw DataError(path + " is written with another delimiter or decimal mark than " +
                    rows_.files.front() + "; import it alone, or give --delimiter and --decimal");
  }
  CsvReader reader(path, dialect_.delimiter, options_.skip_lines);
  CsvHeader header(reader, cells_, options_.no_header);
  if (!reader.next()) {
    throw DataError(path +
                    " has a header and no rows of data; training needs at least one window of "
                    "rows");
  }
  header.check_width(reader);
  if (rows_.files.empty()) choose_columns(header);

  Layout layout = layout_of(header);
  rows_.files.push_back(path);
  rows_.file_begin.push_back(rows_.rows());
  if (!layout.series) {
    std::string name = std::filesystem::path(path).stem().string();
    if (series_numbers_.count(name) > 0) name = path;
    layout.file_series = series_index(name);
  }
  do {
    header.check_width(reader);
    add_row(reader, layout);
  } while (reader.next());

  if (header.names().size() == 1 && reader.first_inner_blank() > 0) {
    throw DataError(
        path + ":" + std::to_string(reader.first_inner_blank()) +
        ": a blank line in a file of one column may be a missing value or nothing; write NA "
        "or remove it");
  }
  notes_.insert(notes_.end(), header.notes().begin(), header.notes().end());
}

CsvCollector::Layout CsvCollector::layout_of(const CsvHeader& header) {
  Layout layout;
  for (const CsvColumn& column : columns_) layout.values.push_back(header.require(column.name));
  if (time_choice_) layout.time = header.require(time_choice_->name);
  if (!options_.series_column.empty()) layout.series = header.require(options_.series_column);
  std::map<std::string, std::vector<size_t>> others;
  for (size_t i = 0; i < header.names().size(); ++i) {
    const bool used =
        std::find(layout.values.begin(), layout.values.end(), i) != layout.values.end() ||
        layout.time == i || layout.series == i;
    if (!used) others[header.names()[i]].push_back(i);
  }
  for (const auto& [name, positions] : others) {
    for (const size_t position : positions) {
      layout.others.push_back({position, XXH3_64bits(name.data(), name.size())});
    }
    if (rows_.files.empty()) rows_.other_columns.push_back(name);
  }
  return layout;
}

void CsvCollector::add_row(const CsvReader& reader, const Layout& layout) {
  const std::vector<std::string_view>& fields = reader.fields();
  uint64_t hash = 0;
  for (size_t i = 0; i < columns_.size(); ++i) {
    const std::string_view cell = fields[layout.values[i]];
    rows_.values.push_back(columns_[i].value_of(cell, cells_, reader, rows_.rows()));
    if (columns_[i].state == CsvColumn::State::kText) {
      hash = XXH3_64bits_withSeed(cell.data(), cell.size(), hash + i + 1);
    }
  }
  for (const Layout::Other& other : layout.others) {
    const std::string_view cell = fields[other.position];
    hash = XXH3_64bits_withSeed(cell.data(), cell.size(), hash + other.name_hash);
  }
  rows_.other_hash.push_back(hash);
  if (layout.time) {
    const std::string_view cell = fields[*layout.time];
    double value = 0;
    if (cells_.parse(cell, value) == CellKind::kMissing) {
      throw DataError(reader.place() + ": the time, column '" + time_choice_->name +
                      "', is missing ('" + shown(cell) +
                      "'), and a row without time has no place; fill it in or remove the row");
    }
    rows_.time.push_back(time_.parse(cell, reader.place()));
    settle_day_first();
  }
  int32_t series = layout.file_series;
  if (layout.series) {
    if (fields[*layout.series].empty()) {
      throw DataError(reader.place() + ": the series column '" + options_.series_column +
                      "' is empty; every row must name its series");
    }
    series = series_index(std::string(fields[*layout.series]));
  }
  rows_.series_of.push_back(series);
  rows_.line.push_back(static_cast<uint32_t>(reader.line()));
}

// The first proof that the day comes first turns the stamps before it; later ones come out right.
void CsvCollector::settle_day_first() {
  if (time_.order() != TimeColumn::Order::kDayFirst) return;
  const std::vector<int64_t> turned = time_.take_day_first();
  std::copy(turned.begin(), turned.end(), rows_.time.begin());
}

void CsvCollector::check_time() const {
  if (time_.order() == TimeColumn::Order::kUnproved) {
    const auto format = [&](const char* date) {
      return "'" + format_with_clock(time_.first_text(), date).value_or(date) + "'";
    };
    throw DataError(rows_.files.front() + ": every day in '" + time_choice_->name +
                    "' is 12 or less, so day and month cannot be told apart; give --time-format " +
                    format("%m/%d/%Y") + " or " + format("%d/%m/%Y"));
  }
  for (const CsvColumn& column : columns_) {
    if (column.state == CsvColumn::State::kText && column.time.mostly_time()) column.time.refuse();
  }
}

// Where the decimal mark is usually a comma, 1.005 may be one thousand and five. A decimal point
// proved in one column holds for the others, except for those that look like 995, 1.000, 1.005.
void CsvCollector::check_points() const {
  const auto stamp = parse_stamp(time_.first_text());
  const bool points = (stamp && stamp->style == Stamp::Style::kPoint) ||
                      (time_choice_ && time_choice_->format.starts_with("%d.%m."));
  if (dialect_.delimiter != ';' && !points) return;
  const bool proved = std::any_of(columns_.begin(), columns_.end(),
                                  [](const CsvColumn& column) { return column.points.decimal; });
  for (const CsvColumn& column : columns_) {
    const PointUse& use = column.points;
    if (use.place.empty() || use.decimal || (proved && !use.plain)) continue;
    throw DataError(use.place + ", column '" + column.name + "': the point in " + use.text +
                    " may be a decimal or a thousands mark; give --decimal . when it is the "
                    "decimal mark, else remove the thousands marks");
  }
}

// How the time was read, or why there is none.
void CsvCollector::note_time(const std::vector<size_t>& kept) {
  if (!time_choice_) {
    const bool none = options_.time_column == kNoTimeColumn;
    notes_.push_back(
        std::string(none ? "no time column is wanted" : "no time column was recognised") +
        ": rows are taken in the order of the file");
    for (const size_t i : kept) {
      if (none || !usual_time_name(columns_[i].name)) continue;
      notes_.push_back(
          "column '" + columns_[i].name +
          "' holds numbers and is taken as values; if it is the time, give --time-column "
          "and --time-format");
    }
    return;
  }
  if (time_choice_->calendar) {
    notes_.push_back("numbers in '" + time_choice_->name + "' are taken as times of the format " +
                     time_choice_->format);
  }
  if (!time_.epoch_unit().empty()) {
    notes_.push_back("numbers in '" + time_choice_->name + "' are taken as " + time_.epoch_unit() +
                     " since 1970");
  } else if (time_.without_zone()) {
    notes_.push_back("times without a zone are taken as " +
                     (options_.time_zone.empty() ? std::string("UTC") : options_.time_zone));
  }
}

CsvRows CsvCollector::take(CsvImportReport& report, std::vector<std::string>& notes) {
  check_time();
  check_points();
  std::vector<size_t> kept;
  std::vector<std::string> text;
  std::vector<std::string> empty;
  std::vector<std::string> rounded;
  for (size_t i = 0; i < columns_.size(); ++i) {
    const CsvColumn& column = columns_[i];
    if (column.state == CsvColumn::State::kText) {
      text.push_back("'" + column.name + "' ('" + column.text + "' at " + column.text_place + ")");
      rows_.other_columns.push_back(column.name);
      // A time of day is what makes a stamp of a date in front.
      if (parse_stamp("2000-01-01 " + column.text)) rows_.clock_columns.push_back(column.name);
    } else if (column.state == CsvColumn::State::kUnknown && !column.requested) {
      empty.push_back("'" + column.name + "'");
    } else {
      if (const auto change = column.narrowing.lost()) {
        column.refuse_lost(*change, rows_.place(change->row_before), rows_.place(change->row));
      }
      kept.push_back(i);
      if (column.rounded) rounded.push_back("'" + column.name + "'");
    }
  }
  if (!text.empty()) notes_.push_back("left out, because they hold text: " + listed(text, 6));
  if (!empty.empty()) notes_.push_back("left out, because they hold no value: " + listed(empty, 6));
  if (!rounded.empty()) {
    notes_.push_back("whole numbers beyond 16777216 are rounded to float32 in " +
                     listed(rounded, 6));
  }
  if (kept.empty() && !repeated_.empty()) {
    throw DataError(repeated_.front() +
                    ", and no other column holds numbers; give each column its own name");
  }
  if (kept.empty()) {
    throw DataError(rows_.files.front() + " has no column of numbers" +
                    (text.empty() ? "" : ": " + listed(text, 6)) +
                    "; check --delimiter and --decimal");
  }
  note_time(kept);

  report.delimiter = dialect_.delimiter;
  report.decimal = dialect_.decimal;
  report.time_column = time_choice_ ? time_choice_->name : "";
  report.series_column = options_.series_column;
  report.rows_read = rows_.rows();
  const auto rows = static_cast<size_t>(rows_.rows());
  for (const size_t i : kept) {
    rows_.columns.push_back(columns_[i].name);
    rows_.missing.push_back(columns_[i].missing);
    rows_.infinite.push_back(columns_[i].infinite);
  }
  if (kept.size() < columns_.size()) {
    size_t out = 0;
    for (size_t row = 0; row < rows; ++row) {
      for (const size_t i : kept) rows_.values[out++] = rows_.values[row * columns_.size() + i];
    }
    rows_.values.resize(out);
    rows_.values.shrink_to_fit();
  }
  notes.insert(notes.end(), notes_.begin(), notes_.end());
  return std::move(rows_);
}

}  // namespace longship::data
