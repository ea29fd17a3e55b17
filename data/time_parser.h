#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace longship::data {

// Offset of a time zone from UTC in seconds: "UTC", "Z", "GMT", "+01:00", "-0530", "UTC+2". Throws
// DataError for anything else: names such as Europe/Oslo need a zone table with summer times.
int64_t zone_offset(const std::string& zone);

// "2013-01-01T06:00:00Z", with as many digits of a second as there are.
std::string format_time(int64_t ns);

// A stamp as far as its own text tells.
struct Stamp {
  int64_t ns = 0;      // since 1970, UTC if zoned, else local
  bool zoned = false;  // the text gives an offset or Z
  enum class Style { kIso, kYearSlash, kSlash, kPoint, kEpoch, kFormat } style = Style::kIso;
  // kSlash: `ns` with the month first, and with the day first, where it can be read so.
  std::optional<int64_t> month_first;
  std::optional<int64_t> day_first;
};

// Recognises ISO 8601 ("2013-01-01", with T or blank and a time, fraction, Z or offset; "2013-01"),
// "2013/01/31", dates with points, whose day comes first ("31.1.2013"), and slash dates of unknown
// order ("1/31/2013"), each with an optional time and AM or PM. Nothing for other texts, bare
// numbers among them.
std::optional<Stamp> parse_stamp(std::string_view text);

// Seconds, milli-, micro- or nanoseconds since 1970 by the count of digits (10, 13, 16, 19),
// seconds also with a fraction. Nothing for others and for what does not fit 64 bits.
std::optional<Stamp> parse_epoch(std::string_view text);

// By a format in the manner of strptime: %Y %m %d %H %I %M %S %f (fraction) %p %j %b %B (English
// month names) %z %y %F %T %s %%; a blank matches any number of blanks; "epoch-s", "epoch-ms",
// "epoch-us" and "epoch-ns" are whole formats. Nothing when the text does not match to its end.
// Throws DataError for a specifier that is not known.
std::optional<Stamp> parse_by_format(std::string_view text, const std::string& format);

// Turns the texts of one time column into nanoseconds, all in one style and all with or all without
// a zone. A slash date's order is proved by the first day above 12; until then the month is taken
// first.
class TimeColumn {
 public:
  // format empty: recognised. zone: for stamps without one. `named`: the user named the column, so
  // that bare numbers are epochs.
  TimeColumn(std::string format, const std::string& zone, bool named);

  // Throws DataError "PLACE: ..." for a text that is no stamp or contradicts the ones before.
  int64_t parse(std::string_view text, const std::string& place);

  enum class Order { kNotSlash, kUnproved, kMonthFirst, kDayFirst };
  Order order() const { return order_; }
  // The stamps before the proof of kDayFirst, which were read with the month first, read with the
  // day first instead. Given once, empty then.
  std::vector<int64_t> take_day_first() { return std::exchange(day_first_, {}); }
  bool without_zone() const { return style_ && !zoned_; }
  // "seconds", "milliseconds", ... when the column holds numbers since 1970; else empty.
  std::string epoch_unit() const;
  const std::string& first_text() const { return first_text_; }

 private:
  std::string format_;
  int64_t offset_ns_;
  bool named_;
  std::optional<Stamp::Style> style_;
  bool zoned_ = false;
  size_t epoch_digits_ = 0;
  std::string first_text_;
  std::string first_place_;
  Order order_ = Order::kNotSlash;
  std::string proof_;               // where the order was proved
  std::vector<int64_t> day_first_;  // while it is not
};

}  // namespace longship::data
