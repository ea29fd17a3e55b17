#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "data/calendar.h"

namespace longship::data {

// Takes pieces off the front of a text. Every method leaves the text as it was when it returns
// false or 0, fraction() and half_day() excepted.
class TextScanner {
 public:
  explicit TextScanner(std::string_view text) : rest_(text) {}

  bool done() const { return rest_.empty(); }
  bool at(char c) const { return !rest_.empty() && rest_.front() == c; }
  void skip() { rest_.remove_prefix(1); }
  bool literal(std::string_view text);
  bool blanks();  // at least one
  // An unsigned number of `least` to `most` digits; returns how many it had, 0 for none.
  size_t number(int64_t& value, size_t least, size_t most);
  // Digits of a fraction of a second (1 or more, those after the ninth are dropped), as
  // nanoseconds.
  bool fraction(int64_t& nanoseconds);
  // "AM" or "PM" after an hour of 1 to 12, turned into one of 0 to 23.
  enum class HalfDay { kAbsent, kApplied, kWrongHour };
  HalfDay half_day(int64_t& hour);
  // An English month, short or full.
  bool month_name(int64_t& month);

 private:
  std::string_view rest_;
};

// Takes a time zone off the front: "Z", "UTC", "+01", "+0100", "+01:00", "UTC+2", at most 14 hours.
// Sets its seconds east of UTC.
bool scan_zone(TextScanner& text, int64_t& seconds);

// What a strptime-like format found.
struct FormatFields {
  CivilTime time;
  bool zoned = false;
  int64_t offset = 0;            // seconds east of UTC
  int64_t day_of_year = 0;       // 0: not given
  std::optional<int64_t> epoch;  // seconds
};

// Matches a text against a format; see parse_by_format(). Throws DataError for unknown specifiers.
bool scan_format(TextScanner& text, std::string_view format, FormatFields& fields);

}  // namespace longship::data
