#include "data/time_axis.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>

#include "data/calendar.h"
#include "data/error.h"
#include "data/number_text.h"
#include "data/time_format.h"
#include "data/time_parser.h"

namespace longship::data {
namespace {

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

// Nanoseconds of a unit, 0 when it is none of a fixed length.
int64_t unit_length(const std::string& unit) {
  static constexpr std::array<std::pair<std::string_view, int64_t>, 26> kUnits = {{
      {"ns", 1},
      {"nanosecond", 1},
      {"nanoseconds", 1},
      {"us", 1'000},
      {"microsecond", 1'000},
      {"microseconds", 1'000},
      {"ms", 1'000'000},
      {"msec", 1'000'000},
      {"millisecond", 1'000'000},
      {"milliseconds", 1'000'000},
      {"s", kSecondNs},
      {"sec", kSecondNs},
      {"secs", kSecondNs},
      {"second", kSecondNs},
      {"seconds", kSecondNs},
      {"min", 60 * kSecondNs},
      {"mins", 60 * kSecondNs},
      {"minute", 60 * kSecondNs},
      {"minutes", 60 * kSecondNs},
      {"h", 3600 * kSecondNs},
      {"hr", 3600 * kSecondNs},
      {"hour", 3600 * kSecondNs},
      {"hours", 3600 * kSecondNs},
      {"d", kDayNs},
      {"day", kDayNs},
      {"days", kDayNs},
  }};
  const auto found = std::find_if(kUnits.begin(), kUnits.end(),
                                  [&](const auto& known) { return known.first == unit; });
  return found == kUnits.end() ? 0 : found->second;
}

bool usual_name(const Hdf5Dataset& dataset) {
  const std::string name = lower(dataset.path().substr(dataset.path().rfind('/') + 1));
  static constexpr std::array<std::string_view, 8> kNames = {
      "time", "times", "timestamp", "timestamps", "date", "dates", "datetime", "valid_time"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

// Integers since 1970 by their count of digits, when all agree.
int64_t unit_by_digits(const std::vector<int64_t>& values) {
  constexpr std::array<std::pair<int64_t, int64_t>, 4> kLeast = {{{1'000'000'000, kSecondNs},
                                                                  {1'000'000'000'000, 1'000'000},
                                                                  {1'000'000'000'000'000, 1'000},
                                                                  {1'000'000'000'000'000'000, 1}}};
  if (values.empty()) return 0;
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  for (const auto& [from, unit] : kLeast) {
    if (*least >= from && (unit == 1 || *most / 10 < from)) return unit;
  }
  return 0;
}

// What `units` says: nanoseconds of a unit, and the stamp that is counted from.
struct TimeUnit {
  int64_t length = 0;
  int64_t start = 0;
};

std::optional<TimeUnit> time_unit(const std::string& units, const std::string& calendar) {
  const std::string known = lower(calendar);
  const bool standard = known.empty() || known == "standard" || known == "gregorian" ||
                        known == "proleptic_gregorian";
  std::string name = lower(units);
  TimeUnit unit;
  const size_t since = name.find(" since ");
  if (since != std::string::npos) {
    // NetCDF writes "2013-1-1 0:0:0.0" as well; what ISO does not know is not guessed.
    const auto stamp = parse_stamp(units.substr(since + 7));
    if (!stamp) return std::nullopt;
    unit.start = stamp->ns;
    name.resize(since);
  }
  unit.length = unit_length(name);
  if (unit.length == 0 || !standard) return std::nullopt;
  return unit;
}

// start + whole * length + rest; false when it does not fit.
bool stamp_of(const TimeUnit& unit, int64_t whole, int64_t rest, int64_t& stamp) {
  int64_t product = 0;
  return !__builtin_mul_overflow(whole, unit.length, &product) &&
         !__builtin_add_overflow(product, rest, &product) &&
         !__builtin_add_overflow(product, unit.start, &stamp);
}

// The nanoseconds to which the stamps of an axis of floats can be told: 1, or those of the next
// coarser decimal unit. "days since" in doubles are 157 ns apart today: 01:00 comes out some ns
// off, and equal steps would no longer be equal.
int64_t grain_of(const std::vector<double>& values, const TimeUnit& unit, bool wide) {
  double largest = 0;
  for (const double value : values) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  }
  const double gap = wide ? std::nextafter(largest, HUGE_VAL) - largest
                          : std::nextafter(static_cast<float>(largest), HUGE_VALF) - largest;
  for (const int64_t grain : {int64_t{1}, int64_t{1'000}, int64_t{1'000'000}}) {
    if (gap * static_cast<double>(unit.length) <= static_cast<double>(grain)) return grain;
  }
  return kSecondNs;
}

bool rounded_stamp(const TimeUnit& unit, double value, int64_t grain, int64_t& stamp) {
  // Whole units and the rest apart: the product of both would lose digits of a double.
  const double whole = std::floor(value);
  if (!(std::abs(value) < 9.2e18)) return false;
  const double rest = (value - whole) * static_cast<double>(unit.length);
  return stamp_of(unit, static_cast<int64_t>(whole),
                  std::llround(rest / static_cast<double>(grain)) * grain, stamp);
}

DataError no_room(const std::string& where, const std::string& time) {
  return DataError(where + ": the time " + time + " does not fit nanoseconds since 1970");
}

// The stamps of numbers with units; nothing for units that are no time, or of a calendar other than
// the standard one.
std::optional<std::vector<int64_t>> decode(const Hdf5Dataset& dataset, const std::string& units,
                                           const std::string& calendar) {
  const std::optional<TimeUnit> unit = time_unit(units, calendar);
  if (!unit) return std::nullopt;
  const auto refuse = [&](const std::string& value) {
    throw no_room(dataset.name(), value + " " + units);
  };
  std::vector<int64_t> stamps(static_cast<size_t>(dataset.info().elements()));
  if (dataset.info().type_class == H5T_INTEGER) {
    // Nanoseconds of today take more digits than a double has.
    const std::vector<int64_t> values = dataset.read_integers();
    for (size_t i = 0; i < values.size(); ++i) {
      if (!stamp_of(*unit, values[i], 0, stamps[i])) refuse(std::to_string(values[i]));
    }
    return stamps;
  }
  const std::vector<double> values = dataset.read_doubles();
  const int64_t grain = grain_of(values, *unit, dataset.info().type_size > sizeof(float));
  for (size_t i = 0; i < values.size(); ++i) {
    if (!rounded_stamp(*unit, values[i], grain, stamps[i])) refuse(number_text(values[i]));
  }
  return stamps;
}

}  // namespace

bool is_time_axis(const Hdf5Dataset& dataset) {
  const Hdf5DatasetInfo& info = dataset.info();
  if (info.shape.size() != 1) return false;
  const auto units = text_attribute(dataset.id(), "units");
  if (units && lower(*units).find(" since ") != std::string::npos) return true;
  return usual_name(dataset) && (info.is_number() || info.type_class == H5T_STRING);
}

std::optional<std::vector<int64_t>> read_time_axis(const Hdf5Dataset& dataset, std::string& note) {
  if (dataset.info().type_class == H5T_STRING) {
    TimeColumn column("", "", false);
    std::vector<int64_t> stamps;
    size_t row = 0;
    for (const std::string& text : dataset.read_strings()) {
      stamps.push_back(column.parse(text, dataset.name() + "[" + std::to_string(row++) + "]"));
    }
    if (column.order() != TimeColumn::Order::kNotSlash) {
      throw DataError(dataset.name() + " holds slash dates; write ISO 8601 stamps");
    }
    return stamps;
  }
  if (const auto units = text_attribute(dataset.id(), "units")) {
    const std::string calendar = text_attribute(dataset.id(), "calendar").value_or("");
    auto stamps = decode(dataset, *units, calendar);
    if (stamps) return stamps;
    throw DataError(dataset.name() + ": times in '" + *units + "'" +
                    (calendar.empty() ? "" : " of the calendar " + calendar) +
                    " are not read; write seconds since 1970-01-01");
  }
  if (dataset.info().type_class != H5T_INTEGER) return std::nullopt;
  std::vector<int64_t> stamps = dataset.read_integers();
  const int64_t unit = unit_by_digits(stamps);
  if (unit == 0) return std::nullopt;
  const auto date_like = [](int64_t number) {
    return calendar_format(std::to_string(number)).has_value();
  };
  if (std::all_of(stamps.begin(), stamps.end(), date_like)) {
    throw DataError(dataset.name() + " has no units, and every number in it, such as " +
                    std::to_string(stamps.front()) +
                    ", may be a date or seconds since 1970; give it the attribute `units` "
                    "(\"seconds since 1970-01-01\") or write ISO 8601 stamps");
  }
  for (int64_t& stamp : stamps) {
    const int64_t stored = stamp;
    if (__builtin_mul_overflow(stored, unit, &stamp)) {
      throw no_room(dataset.name(), std::to_string(stored));
    }
  }
  note = dataset.name() + " has no units; taken as " +
         (unit == kSecondNs ? "seconds"
          : unit == 1       ? "nanoseconds"
          : unit == 1'000   ? "microseconds"
                            : "milliseconds") +
         " since 1970";
  return stamps;
}

}  // namespace longship::data
