#include "data/series_assembly.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "data/calendar.h"
#include "data/error.h"
#include "data/time_parser.h"

namespace longship::data {
namespace {

constexpr size_t kHolesShown = 10;
// More different steps than this are no grid.
constexpr size_t kMostSteps = 10'000;

using RowOrder = std::vector<std::vector<int64_t>>;  // per series: rows in order of time

bool same_row(const CsvRows& rows, int64_t a, int64_t b) {
  const size_t columns = rows.columns.size();
  return rows.other_hash[static_cast<size_t>(a)] == rows.other_hash[static_cast<size_t>(b)] &&
         std::memcmp(rows.values.data() + static_cast<size_t>(a) * columns,
                     rows.values.data() + static_cast<size_t>(b) * columns,
                     columns * sizeof(float)) == 0;
}

// Where the time of day stands beside a time column of dates: in a column of texts such as 06:00,
// or in one of numbers that is called so.
std::optional<std::string> clock_column(const CsvRows& rows) {
  if (!rows.clock_columns.empty()) return rows.clock_columns.front();
  for (const std::string& name : rows.columns) {
    for (const std::string_view clock : {"hour", "hours", "hr", "stunde", "time", "uhrzeit"}) {
      const bool same = std::equal(name.begin(), name.end(), clock.begin(), clock.end(),
                                   [](unsigned char a, char b) { return std::tolower(a) == b; });
      if (same) return name;
    }
  }
  return std::nullopt;
}

[[noreturn]] void refuse_conflict(const CsvRows& rows, size_t series, int64_t a, int64_t b,
                                  const CsvImportReport& report) {
  std::string hint = "; remove one of the rows";
  const bool midnight = rows.time[static_cast<size_t>(a)] % kDayNs == 0;
  const auto clock = midnight ? clock_column(rows) : std::nullopt;
  if (clock) {
    hint = "; the time of day seems to stand in column '" + *clock + "': join " +
           (report.time_column.empty() ? "the date" : "'" + report.time_column + "'") +
           " and it into one column before the import, such as 2020-12-31 06:00";
  } else if (report.series_column.empty()) {
    hint = "; if the file holds several series, give --series-column";
    if (!rows.other_columns.empty()) {
      hint += " (columns that were left out: " + listed(rows.other_columns) + ")";
    }
  }
  throw DataError(rows.place(a) + " and " + rows.place(b) + " have the same time, " +
                  format_time(rows.time[static_cast<size_t>(a)]) +
                  ", with different values (series '" + rows.series[series] + "')" + hint);
}

int64_t time_at(const CsvRows& rows, int64_t row) {
  return rows.time[static_cast<size_t>(row)];
}

void sort_rows(const CsvRows& rows, bool strict, RowOrder& order, CsvImportReport& report) {
  const auto before = [&](int64_t a, int64_t b) { return time_at(rows, a) < time_at(rows, b); };
  for (std::vector<int64_t>& series : order) {
    if (std::is_sorted(series.begin(), series.end(), before)) continue;
    if (strict) {
      const auto bad = std::is_sorted_until(series.begin(), series.end(), before);
      throw DataError(rows.place(*bad) + ": the time " + format_time(time_at(rows, *bad)) +
                      " comes before that of the row above; sort the rows or leave out --strict");
    }
    const std::vector<int64_t> read = series;
    std::stable_sort(series.begin(), series.end(), before);
    for (size_t i = 0; i < read.size(); ++i) report.rows_moved += read[i] != series[i] ? 1 : 0;
  }
}

void drop_copies(const CsvRows& rows, bool strict, RowOrder& order, CsvImportReport& report) {
  for (size_t s = 0; s < order.size(); ++s) {
    std::vector<int64_t> kept;
    kept.reserve(order[s].size());
    for (const int64_t row : order[s]) {
      if (kept.empty() || time_at(rows, kept.back()) != time_at(rows, row)) {
        kept.push_back(row);
        continue;
      }
      if (!same_row(rows, kept.back(), row)) refuse_conflict(rows, s, kept.back(), row, report);
      if (strict) {
        throw DataError(rows.place(row) + " repeats " + rows.place(kept.back()) +
                        "; remove it or leave out --strict");
      }
      ++report.rows_repeated;
    }
    order[s] = std::move(kept);
  }
}

// The most frequent difference between neighbours, the smaller of two; 0 when there is none.
int64_t most_frequent_step(const CsvRows& rows, const RowOrder& order) {
  std::unordered_map<int64_t, int64_t> counts;
  for (const std::vector<int64_t>& series : order) {
    for (size_t i = 1; i < series.size(); ++i) {
      ++counts[time_at(rows, series[i]) - time_at(rows, series[i - 1])];
      if (counts.size() > kMostSteps) return 0;
    }
  }
  int64_t step = 0;
  int64_t most = 0;
  for (const auto& [difference, count] : counts) {
    if (count > most || (count == most && difference < step)) {
      step = difference;
      most = count;
    }
  }
  return step;
}

// Months since year 0 when every stamp has the first one's day and time of day.
bool month_number(int64_t stamp, const CivilTime& first, int64_t& number) {
  const CivilTime time = to_civil(stamp);
  number = time.year * 12 + time.month;
  return time.day == first.day && time.hour == first.hour && time.minute == first.minute &&
         time.second == first.second && time.nanosecond == first.nanosecond;
}

struct Grid {
  bool fits = true;
  int64_t rows = 0;       // of the full grid, over all series
  std::string off_place;  // the first row that is not on it
};

// Checks every stamp against a grid that `steps_between` counts, and notes the holes.
template <typename StepsBetween>
Grid find_holes(const CsvRows& rows, const RowOrder& order, CsvImportReport& report,
                const StepsBetween& steps_between) {
  Grid grid;
  report.hole_count = 0;
  report.hole_rows = 0;
  report.first_holes.clear();
  for (size_t s = 0; s < order.size(); ++s) {
    for (size_t i = 0; i < order[s].size(); ++i) {
      int64_t steps = 1;
      if (i > 0) {
        steps = steps_between(time_at(rows, order[s][i - 1]), time_at(rows, order[s][i]));
      }
      if (steps <= 0) {
        grid.fits = false;
        grid.off_place = rows.place(order[s][i]);
        return grid;
      }
      grid.rows += steps;
      if (steps == 1) continue;
      ++report.hole_count;
      report.hole_rows += steps - 1;
      if (report.first_holes.size() < kHolesShown) {
        report.first_holes.push_back({rows.series[s], time_at(rows, order[s][i - 1]), steps - 1});
      }
    }
  }
  return grid;
}

std::string holes_text(const CsvImportReport& report) {
  std::vector<std::string> places;
  places.reserve(report.first_holes.size());
  for (const Hole& hole : report.first_holes) {
    places.push_back(std::to_string(hole.rows) + " after " + format_time(hole.after) + " in '" +
                     hole.series + "'");
  }
  std::string text = std::to_string(report.hole_count) + " holes of together " +
                     std::to_string(report.hole_rows) + " rows: " + listed(places, kHolesShown);
  const auto more = report.hole_count - static_cast<int64_t>(places.size());
  return more > 0 ? text + " and " + std::to_string(more) + " more" : text;
}

// Decides the step and whether holes are filled; returns the rows of the result, over all series.
int64_t find_step(const CsvRows& rows, const RowOrder& order, bool strict, CsvImportReport& report,
                  std::vector<std::string>& notes) {
  int64_t kept = 0;
  for (const std::vector<int64_t>& series : order) kept += static_cast<int64_t>(series.size());
  const int64_t step = most_frequent_step(rows, order);
  const auto refuse = [&](const std::string& what) {
    if (strict)
      throw DataError(rows.files.front() + ": " + what + "; repair or leave out --strict");
  };

  const Grid grid = find_holes(rows, order, report, [step](int64_t a, int64_t b) {
    return step > 0 && (b - a) % step == 0 ? (b - a) / step : int64_t{0};
  });
  if (grid.fits && report.hole_count == 0) {
    report.step_ns = step;
    return kept;
  }
  if (grid.fits && report.hole_rows <= kept) {
    refuse(holes_text(report));
    report.step_ns = step;
    report.holes_filled = true;
    notes.push_back("filled with missing values: " + holes_text(report));
    return grid.rows;
  }
  if (grid.fits) {
    // Trading hours, campaigns: filling would make most rows up.
    refuse(holes_text(report));
    notes.push_back("not filled, because more rows would be made up than there are: " +
                    holes_text(report) + "; windows count rows and run over these holes");
    return kept;
  }

  const CivilTime first = to_civil(time_at(rows, order.front().front()));
  const Grid months = find_holes(rows, order, report, [&first](int64_t a, int64_t b) {
    int64_t from = 0;
    int64_t to = 0;
    const bool on_grid = month_number(a, first, from) && month_number(b, first, to);
    return on_grid ? to - from : int64_t{0};
  });
  if (months.fits) {
    report.monthly = true;
    notes.push_back("one row a calendar month: the step in days varies, windows count rows");
    if (report.hole_count > 0) {
      refuse(holes_text(report));
      notes.push_back("not filled: " + holes_text(report));
    }
    return kept;
  }
  report.hole_count = 0;
  report.hole_rows = 0;
  report.first_holes.clear();
  refuse("the time between rows varies (first at " + grid.off_place + ")");
  notes.push_back("the time between rows varies (first at " + grid.off_place +
                  "): windows count rows, not time");
  return kept;
}

}  // namespace

SeriesTable assemble_series(CsvRows rows, bool strict, CsvImportReport& report) {
  RowOrder order(rows.series.size());
  for (int64_t row = 0; row < rows.rows(); ++row) {
    order[static_cast<size_t>(rows.series_of[static_cast<size_t>(row)])].push_back(row);
  }
  SeriesTable table;
  int64_t total = rows.rows();
  if (!rows.time.empty()) {
    sort_rows(rows, strict, order, report);
    drop_copies(rows, strict, order, report);
    if (report.rows_moved > 0) {
      table.notes.push_back("rows were not in order of time: " + std::to_string(report.rows_moved) +
                            " moved");
    }
    if (report.rows_repeated > 0) {
      table.notes.push_back(std::to_string(report.rows_repeated) + " exact copies of rows dropped");
    }
    total = find_step(rows, order, strict, report, table.notes);
  }
  report.missing = rows.missing;
  report.infinite = rows.infinite;

  const auto columns = rows.columns.size();
  table.columns = std::move(rows.columns);
  table.series = rows.series;
  table.values = at::full({total, static_cast<int64_t>(columns)},
                          std::numeric_limits<float>::quiet_NaN(), at::kFloat);
  auto* out = table.values.mutable_data_ptr<float>();
  for (const std::vector<int64_t>& series : order) {
    int64_t next = table.offsets.back();
    for (const int64_t row : series) {
      if (!rows.time.empty()) {
        // Rows of a hole keep the NaN of the empty table.
        while (report.holes_filled && next > table.offsets.back() &&
               table.time.back() + report.step_ns < time_at(rows, row)) {
          table.time.push_back(table.time.back() + report.step_ns);
          ++next;
        }
        table.time.push_back(time_at(rows, row));
      }
      std::memcpy(out + static_cast<size_t>(next) * columns,
                  rows.values.data() + static_cast<size_t>(row) * columns, columns * sizeof(float));
      ++next;
    }
    table.offsets.push_back(next);
  }
  return table;
}

}  // namespace longship::data
