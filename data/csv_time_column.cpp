#include "data/csv_time_column.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "data/calendar.h"
#include "data/csv_header.h"
#include "data/csv_reader.h"
#include "data/error.h"
#include "data/series_store.h"
#include "data/time_format.h"
#include "data/time_parser.h"

namespace longship::data {
namespace {

constexpr int kSampleRecords = 100;
// Numbers of a column that is not called like a time are dates when so many are.
constexpr int64_t kManyDates = 10;

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

// Names that say time where the cells are dates, and nothing where they are not.
bool short_time_name(const std::string& name) {
  static constexpr std::array<std::string_view, 7> kNames = {"t",   "ts",   "dt",      "day",
                                                             "utc", "hour", "yyyymmdd"};
  return std::find(kNames.begin(), kNames.end(), lower(name)) != kNames.end();
}

// A number that counts from 1970 to a time from 2001 to 2100.
bool plausible_epoch(std::string_view cell) {
  const auto stamp = parse_epoch(cell);
  if (!stamp) return false;
  const int64_t year = to_civil(stamp->ns).year;
  return year >= 2001 && year <= 2100;
}

// What the cells of a column are, missing ones aside.
struct Seen {
  int64_t cells = 0;
  int64_t stamps = 0;  // that are read as times
  int64_t likely = 0;  // text that is a time of a format which must be given
  int64_t numbers = 0;
  std::string calendar;             // the first format of digits without marks
  int64_t dates = 0;                // that are of it
  int64_t epochs = 0;               // that may count from 1970
  std::string bad_place, bad_text;  // the first one that is no stamp
  std::string odd_place, odd_text;  // the first one that is not of `calendar`
  bool ascends = true;              // the dates, within each series

  bool all_dates() const { return dates > 0 && dates == cells; }
  // Enough dates for the others to be mistakes.
  bool mostly_dates() const { return dates > 0 && 2 * dates >= cells; }
  bool surely_dates() const { return dates >= kManyDates && 20 * dates >= 19 * cells; }

  // Text of which a part is a time, or a usual name says that all should be.
  // Numbers count only where they were to be read by a format.
  bool looks_like_time(const std::string& name, bool formatted) const {
    if (stamps == cells || (numbers == cells && !formatted)) return false;
    return 5 * (stamps + likely) >= cells || (usual_time_name(name) && numbers == 0);
  }
};

// Reads a file's records, and tells its columns.
class Scan {
 public:
  Scan(const std::string& path, char delimiter, const CsvImportOptions& options,
       const CellParser& cells)
      : options_(options),
        cells_(cells),
        reader_(path, delimiter, options.skip_lines),
        header_(reader_, cells, options.no_header) {}

  const CsvHeader& header() const { return header_; }
  const std::vector<std::string_view>& fields() const { return reader_.fields(); }
  bool next() {
    if (!reader_.next()) return false;
    header_.check_width(reader_);
    return true;
  }
  bool stamp(std::string_view cell) const {
    return options_.time_format.empty() ? parse_stamp(cell).has_value()
                                        : parse_by_format(cell, options_.time_format).has_value();
  }
  // Adds the current record's cell of a column.
  void add(size_t column, Seen& seen) const {
    const std::string_view cell = fields()[column];
    double value = 0;
    const CellKind kind = cells_.parse(cell, value);
    if (kind == CellKind::kMissing) return;
    ++seen.cells;
    if (kind == CellKind::kNumber) ++seen.numbers;
    const std::string calendar = calendar_format(cell).value_or("");
    if (seen.calendar.empty()) seen.calendar = calendar;
    if (!calendar.empty() && calendar == seen.calendar) {
      ++seen.dates;
    } else if (seen.odd_place.empty()) {
      seen.odd_place = reader_.place();
      seen.odd_text = cell;
    }
    if (plausible_epoch(cell)) ++seen.epochs;
    if (stamp(cell)) {
      ++seen.stamps;
      return;
    }
    // It tries many formats, so that whole files are not asked.
    const bool sampled = seen.cells <= kSampleRecords;
    if (sampled && kind != CellKind::kNumber && likely_time_format(cell)) ++seen.likely;
    if (!seen.bad_place.empty()) return;
    seen.bad_place = reader_.place();
    seen.bad_text = cell;
  }

 private:
  const CsvImportOptions& options_;
  const CellParser& cells_;
  CsvReader reader_;
  CsvHeader header_;
};

struct Recogniser {
  const std::string& path;
  char delimiter;
  const CsvImportOptions& options;
  const CellParser& cells;
  std::vector<std::string> names;
  std::vector<Seen> sample;

  Scan scan() const { return Scan(path, delimiter, options, cells); }

  void look() {
    Scan records = scan();
    sample.resize(records.header().names().size());
    for (int record = 0; record < kSampleRecords && records.next(); ++record) {
      for (size_t i = 0; i < records.header().names().size(); ++i) records.add(i, sample[i]);
    }
    names = records.header().names();
    sample.resize(names.size());
  }

  // Whether the user left open what a column is.
  bool open(size_t column) const {
    return names[column] != options.series_column &&
           std::find(options.columns.begin(), options.columns.end(), names[column]) ==
               options.columns.end();
  }

  // Refuses a column of text that looks like the time, with the counts of the whole file. With
  // `usual` only one that is called like it and of which a part is.
  void refuse_broken(bool usual) const {
    for (const bool called : {true, false}) {
      for (size_t i = 0; i < names.size(); ++i) {
        if (!open(i) || !sample[i].looks_like_time(names[i], !options.time_format.empty()))
          continue;
        const bool partly = 5 * (sample[i].stamps + sample[i].likely) >= sample[i].cells;
        if (usual_time_name(names[i]) != called || (usual && !(called && partly))) continue;
        Scan records = scan();
        Seen whole;
        while (records.next()) records.add(i, whole);
        BrokenTime{names[i], whole.bad_place, whole.bad_text, whole.cells - whole.stamps,
                   whole.cells}
            .refuse();
      }
    }
  }

  // What the cells of a column are in the whole file; nothing when the first records hold no dates
  // without marks.
  Seen whole_of(size_t column) const {
    Seen seen;
    if (sample[column].dates == 0) return seen;
    Scan records = scan();
    const auto series =
        options.series_column.empty() ? std::nullopt : records.header().find(options.series_column);
    std::map<std::string, std::string, std::less<>> last;
    while (records.next()) {
      const int64_t dates = seen.dates;
      records.add(column, seen);
      if (seen.dates == dates) continue;
      // Texts of one length are in the order of their numbers.
      const std::string_view cell = records.fields()[column];
      std::string& before = last[std::string(series ? records.fields()[*series] : "")];
      seen.ascends = seen.ascends && before <= cell;
      before = cell;
    }
    return seen;
  }

  // Refuses a column of which most cells are dates without marks, and others are none.
  [[noreturn]] void refuse_odd(size_t column, const Seen& seen) const {
    const std::string& text = seen.odd_text;
    const bool named = !options.time_column.empty();
    const bool midnight =
        text.size() > 8 && text.substr(8, 2) == "24" && calendar_format(text.substr(0, 8));
    throw DataError(seen.odd_place + ", column '" + names[column] + "': '" + shown(text) +
                    "' is no time of the form " + seen.calendar + ", as " +
                    std::to_string(seen.dates) + " of its " + std::to_string(seen.cells) +
                    " cells are; correct it and its like" +
                    (midnight ? " (hour 24 is hour 00 of the next day)" : " or remove their rows") +
                    ", or give " + (named ? "" : "--time-column '" + names[column] + "' and ") +
                    "a --time-format that reads all of them" +
                    (named ? "" : " (--time-column none imports without time)"));
  }

  [[noreturn]] void refuse_unsorted(size_t column, const Seen& seen) const {
    const bool long_table = !options.series_column.empty();
    throw DataError(path + ": every number in '" + names[column] + "' is a date of the form " +
                    seen.calendar + ", but they do not ascend" +
                    (long_table ? " within each series" : "") +
                    "; if it is the time, give --time-column '" + names[column] + "'" +
                    (long_table ? ""
                                : " (and --series-column when several series follow one "
                                  "another)") +
                    ", else --time-column none");
  }

  std::optional<TimeChoice> by_stamps() const {
    std::vector<std::string> candidates;
    for (size_t i = 0; i < names.size(); ++i) {
      // A repeated name is refused by itself.
      const bool listed_already =
          std::find(candidates.begin(), candidates.end(), names[i]) != candidates.end();
      if (open(i) && sample[i].cells > 0 && sample[i].stamps == sample[i].cells &&
          !listed_already) {
        candidates.push_back(names[i]);
      }
    }
    if (candidates.empty()) return std::nullopt;
    std::vector<std::string> usual;
    std::copy_if(candidates.begin(), candidates.end(), std::back_inserter(usual), usual_time_name);
    // Of two columns the one that is called like the time should be it.
    if (usual.empty()) refuse_broken(true);
    if (candidates.size() > 1) {
      if (usual.size() != 1) {
        throw DataError(path + ": the time may be in " + listed(candidates) +
                        "; give --time-column");
      }
      candidates = std::move(usual);
    }
    return TimeChoice{candidates.front(), options.time_format, false};
  }

  std::optional<TimeChoice> by_calendar() const {
    std::vector<TimeChoice> called;
    std::vector<TimeChoice> others;
    // Refused when no other column is the time.
    std::vector<std::pair<size_t, Seen>> broken;
    for (size_t i = 0; i < names.size(); ++i) {
      if (!open(i) || !sample[i].mostly_dates()) continue;
      const Seen seen = whole_of(i);
      const bool usual = usual_time_name(names[i]) || short_time_name(names[i]);
      const bool many = seen.dates >= kManyDates;
      if (!seen.all_dates()) {
        if ((usual && seen.mostly_dates()) || seen.surely_dates()) broken.emplace_back(i, seen);
      } else if (usual && !seen.ascends) {
        refuse_unsorted(i, seen);
      } else if (!seen.ascends && many) {
        broken.emplace_back(i, seen);
      } else if (usual) {
        called.push_back({names[i], seen.calendar, true});
      } else if (seen.ascends && many) {
        others.push_back({names[i], seen.calendar, true});
      }
    }
    for (const auto& [column, seen] : broken) {
      const bool usual = usual_time_name(names[column]) || short_time_name(names[column]);
      if (!called.empty() || (!usual && !others.empty())) continue;
      if (seen.all_dates()) refuse_unsorted(column, seen);
      refuse_odd(column, seen);
    }
    const std::vector<TimeChoice>& candidates = called.empty() ? others : called;
    if (candidates.size() > 1) {
      throw DataError(path + ": the time may be in " + candidates[0].name + ", " +
                      candidates[1].name + "; give --time-column");
    }
    return candidates.empty() ? std::nullopt : std::optional(candidates.front());
  }

  // Refuses numbers that count from 1970 in a column that is called like the time: as values they
  // would be no input, and their order is that of the file.
  void refuse_epochs() const {
    for (size_t i = 0; i < names.size(); ++i) {
      const Seen& seen = sample[i];
      const bool usual = usual_time_name(names[i]) || short_time_name(names[i]);
      if (!open(i) || !usual || seen.cells == 0 || seen.epochs < seen.cells) continue;
      throw DataError(path + ": the numbers in '" + names[i] +
                      "' may be times that count from 1970; if they are, give --time-column '" +
                      names[i] + "', else --time-column none");
    }
  }

  // What the user named; numbers in it may be dates.
  TimeChoice named(size_t column) const {
    if (!options.time_format.empty()) return {options.time_column, options.time_format, false};
    const Seen seen = whole_of(column);
    if (seen.all_dates()) return {options.time_column, seen.calendar, true};
    if (seen.mostly_dates()) refuse_odd(column, seen);
    return {options.time_column, "", false};
  }
};

}  // namespace

bool usual_time_name(const std::string& name) {
  // The last two lines are German and French.
  static constexpr std::array<std::string_view, 20> kNames = {
      "time",      "date",       "datetime", "timestamp", "ds",         "date_time",   "time_hour",
      "index",     "week",       "datum",    "zeit",      "uhrzeit",    "zeitstempel", "zeitpunkt",
      "datumzeit", "datum_zeit", "heure",    "jour",      "horodatage", "date_heure"};
  return std::find(kNames.begin(), kNames.end(), lower(name)) != kNames.end();
}

void BrokenTime::refuse() const {
  if (beyond_range(text)) {
    throw DataError(place + ", column '" + name + "': '" + shown(text) +
                    "' is no time from 1677-09-21 to 2262-04-11, which times in nanoseconds are "
                    "limited to, and the column looks like the time: " +
                    std::to_string(bad) + " of its " + std::to_string(cells) +
                    " cells are none; correct these cells or remove their rows (--time-column "
                    "none imports without time)");
  }
  const auto format = likely_time_format(text);
  const std::string named = "--time-column '" + name + "'";
  const std::string remedy = bad == cells && format
                                 ? "; give " + named + " and --time-format '" + *format + "'"
                                 : "; correct these cells or remove their rows, or give " + named +
                                       " and a --time-format that reads them";
  throw DataError(place + ", column '" + name + "': '" + shown(text) +
                  "' is no time that is recognised, and the column looks like the time: " +
                  std::to_string(bad) + " of its " + std::to_string(cells) + " cells are none" +
                  remedy + " (--time-column none imports without time)");
}

std::optional<TimeChoice> choose_time_column(const std::string& path, char delimiter,
                                             const CsvImportOptions& options,
                                             const CellParser& cells) {
  Recogniser recogniser{path, delimiter, options, cells, {}, {}};
  recogniser.look();
  const Scan records = recogniser.scan();
  if (!options.time_column.empty()) {
    const bool none = options.time_column == kNoTimeColumn;
    if (none && !records.header().find(options.time_column)) return std::nullopt;
    return recogniser.named(records.header().require(options.time_column));
  }
  auto choice = recogniser.by_stamps();
  if (!choice && options.time_format.empty()) choice = recogniser.by_calendar();
  if (choice) {
    records.header().require(choice->name);  // once
    return choice;
  }
  recogniser.refuse_broken(false);
  if (options.time_format.empty()) recogniser.refuse_epochs();
  if (!options.time_format.empty()) {
    throw DataError(path + ": no column holds times of --time-format '" + options.time_format +
                    "'; correct it, or give --time-column");
  }
  return std::nullopt;
}

}  // namespace longship::data
