#include "data/time_parser.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "data/calendar.h"
#include "data/csv_reader.h"
#include "data/error.h"
#include "data/text_scanner.h"
#include "data/time_format.h"

namespace longship::data {
namespace {

// A time after a date: "[T ]HH:MM[:SS[.fraction]][ AM|PM][zone]", all optional.
bool scan_clock(TextScanner& text, CivilTime& time, bool& zoned, int64_t& offset) {
  zoned = false;
  offset = 0;
  if (text.done()) return true;
  if (!text.literal("T") && !text.literal("t") && !text.blanks()) return false;
  if (text.number(time.hour, 1, 2) == 0 || !text.literal(":") ||
      text.number(time.minute, 2, 2) != 2) {
    return false;
  }
  if (text.literal(":")) {
    if (text.number(time.second, 2, 2) != 2) return false;
    if ((text.literal(".") || text.literal(",")) && !text.fraction(time.nanosecond)) return false;
  }
  text.blanks();
  if (text.half_day(time.hour) == TextScanner::HalfDay::kWrongHour) return false;
  text.blanks();
  if (text.done()) return true;
  zoned = true;
  return scan_zone(text, offset) && text.done();
}

std::optional<Stamp> stamp_of(const CivilTime& time, bool zoned, int64_t offset) {
  const std::optional<int64_t> ns = to_nanoseconds(time);
  if (!ns) return std::nullopt;
  Stamp stamp;
  stamp.ns = *ns - offset * kSecondNs;
  stamp.zoned = zoned;
  return stamp;
}

// Of an unsigned count of units and a fraction in nanoseconds; false when it does not fit.
bool since_1970(int64_t count, int64_t unit, int64_t fraction, int64_t& ns) {
  return !__builtin_mul_overflow(count, unit, &ns) && !__builtin_add_overflow(ns, fraction, &ns);
}

std::optional<Stamp> slash_stamp(TextScanner text, int64_t first) {
  CivilTime time;
  int64_t second = 0;
  if (text.number(second, 1, 2) == 0 || !text.literal("/") || text.number(time.year, 4, 4) != 4) {
    return std::nullopt;
  }
  bool zoned = false;
  int64_t offset = 0;
  if (!scan_clock(text, time, zoned, offset)) return std::nullopt;
  time.month = second;
  time.day = first;
  const auto day_first = stamp_of(time, zoned, offset);
  time.month = first;
  time.day = second;
  const auto month_first = stamp_of(time, zoned, offset);
  if (!day_first && !month_first) return std::nullopt;
  Stamp stamp = month_first ? *month_first : *day_first;
  stamp.style = Stamp::Style::kSlash;
  if (month_first) stamp.month_first = month_first->ns;
  if (day_first) stamp.day_first = day_first->ns;
  return stamp;
}

// DD.MM.YYYY: with points the day comes first everywhere.
std::optional<Stamp> point_stamp(TextScanner text, int64_t day) {
  CivilTime time;
  time.day = day;
  bool zoned = false;
  int64_t offset = 0;
  if (text.number(time.month, 1, 2) == 0 || !text.literal(".") ||
      text.number(time.year, 4, 4) != 4 || !scan_clock(text, time, zoned, offset)) {
    return std::nullopt;
  }
  auto stamp = stamp_of(time, zoned, offset);
  if (stamp) stamp->style = Stamp::Style::kPoint;
  return stamp;
}

// What to do about a text that is not recognised: only what reads this text is advised.
std::string advice_on(std::string_view text) {
  if (const auto format = likely_time_format(text)) return "give --time-format '" + *format + "'";
  if (parse_by_format(text, "epoch-s")) {
    return "if it counts from 1970, give --time-format epoch-s, epoch-ms, epoch-us or epoch-ns";
  }
  return "write it as ISO 8601 (2020-12-31 06:00:00), or give a --time-format that reads it";
}

}  // namespace

int64_t zone_offset(const std::string& zone) {
  TextScanner text(zone);
  int64_t seconds = 0;
  if (zone == "Etc/UTC" || zone == "utc") return 0;
  if (!zone.empty() && scan_zone(text, seconds) && text.done()) return seconds;
  throw DataError(
      "the time zone '" + zone +
      "' is not known; give UTC or a fixed offset such as +01:00 (zones with summer time "
      "are not supported: convert the stamps to UTC first)");
}

std::string format_time(int64_t ns) {
  const CivilTime time = to_civil(ns);
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%04d-%02d-%02dT%02d:%02d:%02d",
                static_cast<int>(time.year), static_cast<int>(time.month),
                static_cast<int>(time.day), static_cast<int>(time.hour),
                static_cast<int>(time.minute), static_cast<int>(time.second));
  std::string result = text.data();
  if (time.nanosecond > 0) {
    std::snprintf(text.data(), text.size(), ".%09d", static_cast<int>(time.nanosecond));
    result += text.data();
    result.erase(result.find_last_not_of('0') + 1);
  }
  return result + "Z";
}

std::optional<Stamp> parse_stamp(std::string_view source) {
  TextScanner text(source);
  int64_t first = 0;
  const size_t digits = text.number(first, 1, 4);
  if (digits == 1 || digits == 2) {
    if (text.literal(".")) return point_stamp(text, first);
    return text.literal("/") ? slash_stamp(text, first) : std::nullopt;
  }
  if (digits != 4) return std::nullopt;
  CivilTime time;
  time.year = first;
  const bool slashes = text.at('/');
  if (!slashes && !text.at('-')) return std::nullopt;
  const char* separator = slashes ? "/" : "-";
  text.skip();
  const size_t month_digits = text.number(time.month, 1, 2);
  if (month_digits == 0 || (!slashes && month_digits != 2)) return std::nullopt;
  bool zoned = false;
  int64_t offset = 0;
  if (!text.done() || slashes) {
    const bool date = text.literal(separator) && text.number(time.day, 1, 2) > 0 &&
                      scan_clock(text, time, zoned, offset);
    if (!date) return std::nullopt;
  }
  auto stamp = stamp_of(time, zoned, offset);
  if (stamp) stamp->style = slashes ? Stamp::Style::kYearSlash : Stamp::Style::kIso;
  return stamp;
}

std::optional<Stamp> parse_epoch(std::string_view source) {
  TextScanner text(source);
  const bool negative = text.literal("-");
  int64_t value = 0;
  const size_t digits = text.number(value, 1, 19);
  int64_t unit = 0;
  if (digits == 19) unit = 1;
  if (digits == 16) unit = 1'000;
  if (digits == 13) unit = 1'000'000;
  if (digits == 10) unit = kSecondNs;
  int64_t fraction = 0;
  if (unit == kSecondNs && text.literal(".") && !text.fraction(fraction)) return std::nullopt;
  if (unit == 0 || !text.done()) return std::nullopt;
  Stamp stamp;
  stamp.style = Stamp::Style::kEpoch;
  stamp.zoned = true;
  if (!since_1970(value, unit, fraction, stamp.ns)) return std::nullopt;
  if (negative) stamp.ns = -stamp.ns;
  return stamp;
}

std::optional<Stamp> parse_by_format(std::string_view source, const std::string& format) {
  TextScanner text(source);
  Stamp stamp;
  stamp.style = Stamp::Style::kFormat;
  if (format.starts_with("epoch-")) {
    const std::string unit = format.substr(6);
    const int64_t ns = unit == "s"    ? kSecondNs
                       : unit == "ms" ? 1'000'000
                       : unit == "us" ? 1'000
                                      : 1;
    if (ns == 1 && unit != "ns") {
      throw DataError("the time format '" + format +
                      "' is not known; epochs are epoch-s, -ms, -us, -ns");
    }
    const bool negative = text.literal("-");
    int64_t value = 0;
    int64_t fraction = 0;
    if (text.number(value, 1, 19) == 0) return std::nullopt;
    if (ns == kSecondNs && text.literal(".") && !text.fraction(fraction)) return std::nullopt;
    if (!text.done() || !since_1970(value, ns, fraction, stamp.ns)) return std::nullopt;
    stamp.zoned = true;
    if (negative) stamp.ns = -stamp.ns;
    return stamp;
  }

  FormatFields fields;
  if (!scan_format(text, format, fields) || !text.done()) return std::nullopt;
  std::optional<int64_t> ns = to_nanoseconds(fields.time);
  if (fields.day_of_year > 0) {
    ns = to_nanoseconds({fields.time.year, 1, 1, fields.time.hour, fields.time.minute,
                         fields.time.second, fields.time.nanosecond});
    if (ns) *ns += (fields.day_of_year - 1) * kDayNs;
    if (ns && to_civil(*ns).year != fields.time.year) return std::nullopt;
  }
  if (fields.epoch) {
    int64_t since = 0;
    if (!since_1970(*fields.epoch, kSecondNs, fields.time.nanosecond, since)) return std::nullopt;
    ns = since;
  }
  if (!ns || __builtin_sub_overflow(*ns, fields.offset * kSecondNs, &stamp.ns)) return std::nullopt;
  stamp.zoned = fields.zoned || fields.epoch.has_value();
  return stamp;
}

TimeColumn::TimeColumn(std::string format, const std::string& zone, bool named)
    : format_(std::move(format)),
      offset_ns_((zone.empty() ? 0 : zone_offset(zone)) * kSecondNs),
      named_(named) {
  if (!format_.empty()) parse_by_format("", format_);  // refuses a wrong format at once
}

int64_t TimeColumn::parse(std::string_view text, const std::string& place) {
  std::optional<Stamp> stamp;
  if (!format_.empty()) {
    stamp = parse_by_format(text, format_);
  } else {
    stamp = parse_stamp(text);
    if (!stamp && named_) stamp = parse_epoch(text);
  }
  if (!stamp) {
    if (beyond_range(text, format_)) {
      throw DataError(place + ": '" + shown(text) +
                      "' is no time from 1677-09-21 to 2262-04-11, which times in nanoseconds are "
                      "limited to; correct it, or leave out the row");
    }
    throw DataError(place + ": '" + shown(text) + "' is not a time" +
                    (format_.empty()
                         ? ", or not a recognised one; " + advice_on(text)
                         : " of the format " + format_ + "; correct it, or leave out the row"));
  }
  if (!style_) {
    style_ = stamp->style;
    zoned_ = stamp->zoned;
    first_text_ = text;
    first_place_ = place;
    epoch_digits_ = text.find('.') == std::string_view::npos ? text.size() : text.find('.');
    if (stamp->style == Stamp::Style::kSlash) order_ = Order::kUnproved;
  }
  if (stamp->style != *style_ || (stamp->style == Stamp::Style::kEpoch &&
                                  std::min(text.find('.'), text.size()) != epoch_digits_)) {
    const bool epochs = stamp->style == *style_;
    throw DataError(place + ": '" + shown(text) + "' is written in another way than the time at " +
                    first_place_ + ", '" + shown(first_text_) + "'; " +
                    (epochs ? "if both count in one unit, give --time-format epoch-s, epoch-ms, "
                              "epoch-us or epoch-ns"
                            : "one column has one format: write them alike"));
  }
  if (stamp->zoned != zoned_) {
    throw DataError(place + ": '" + shown(text) +
                    (zoned_ ? "' has no time zone" : "' has a time zone") +
                    ", unlike the time at " + first_place_ + "; write them alike");
  }
  const int64_t shift = zoned_ ? 0 : offset_ns_;
  if (stamp->style == Stamp::Style::kSlash) {
    const Order needed = !stamp->month_first ? Order::kDayFirst
                         : !stamp->day_first ? Order::kMonthFirst
                                             : Order::kUnproved;
    if (needed != Order::kUnproved && order_ != Order::kUnproved && needed != order_) {
      throw DataError(place + ": '" + shown(text) + "' has the " +
                      (needed == Order::kDayFirst ? "day" : "month") + " first, but the time at " +
                      proof_ + " the other way round; one column has one format");
    }
    if (needed != Order::kUnproved && order_ == Order::kUnproved) {
      order_ = needed;
      proof_ = place;
    }
    if (order_ == Order::kUnproved) day_first_.push_back(*stamp->day_first - shift);
    if (order_ == Order::kMonthFirst) day_first_.clear();
    // Once the day is known to come first, stamps that can be read both ways are turned here.
    if (order_ == Order::kDayFirst) return *stamp->day_first - shift;
  }
  return stamp->ns - shift;
}

std::string TimeColumn::epoch_unit() const {
  if (style_ != Stamp::Style::kEpoch) return "";
  return epoch_digits_ >= 19   ? "nanoseconds"
         : epoch_digits_ >= 16 ? "microseconds"
         : epoch_digits_ >= 13 ? "milliseconds"
                               : "seconds";
}

}  // namespace longship::data
