#include "data/text_scanner.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "data/error.h"

namespace longship::data {
namespace {

constexpr std::array<std::string_view, 12> kMonths = {
    "january", "february", "march",     "april",   "may",      "june",
    "july",    "august",   "september", "october", "november", "december"};

char lower(char c) {
  return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
}

// Two digits, one for those who write without padding.
bool two(TextScanner& text, int64_t& value) {
  return text.number(value, 1, 2) > 0;
}

bool scan_specifier(TextScanner& text, char specifier, FormatFields& fields, bool& half_day_hour) {
  CivilTime& time = fields.time;
  switch (specifier) {
    case 'Y':
      return text.number(time.year, 4, 4) > 0;
    case 'y': {
      // As POSIX has it: 69 to 99 are the twentieth century.
      if (text.number(time.year, 2, 2) == 0) return false;
      time.year += time.year < 69 ? 2000 : 1900;
      return true;
    }
    case 'm':
      return two(text, time.month);
    case 'd':
    case 'e':
      return two(text, time.day);
    case 'I':
      half_day_hour = true;
      return two(text, time.hour);
    case 'H':
      return two(text, time.hour);
    case 'M':
      return two(text, time.minute);
    case 'S':
      return two(text, time.second);
    case 'f':
      return text.fraction(time.nanosecond);
    case 'j':
      return text.number(fields.day_of_year, 1, 3) > 0 && fields.day_of_year >= 1 &&
             fields.day_of_year <= 366;
    case 'p':
      half_day_hour = false;
      return text.half_day(time.hour) == TextScanner::HalfDay::kApplied;
    case 'b':
    case 'B':
    case 'h':
      return text.month_name(time.month);
    case 'z':
      fields.zoned = true;
      return scan_zone(text, fields.offset);
    case 'F':
      return scan_format(text, "%Y-%m-%d", fields);
    case 'T':
      return scan_format(text, "%H:%M:%S", fields);
    case 's': {
      int64_t seconds = 0;
      if (text.number(seconds, 1, 11) == 0) return false;
      fields.epoch = seconds;
      return true;
    }
    case '%':
      return text.literal("%");
    default:
      return false;
  }
}

}  // namespace

bool TextScanner::literal(std::string_view text) {
  if (!rest_.starts_with(text)) return false;
  rest_.remove_prefix(text.size());
  return true;
}

bool TextScanner::blanks() {
  const size_t before = rest_.size();
  while (at(' ')) skip();
  return rest_.size() < before;
}

size_t TextScanner::number(int64_t& value, size_t least, size_t most) {
  size_t digits = 0;
  int64_t result = 0;
  while (digits < most && digits < rest_.size() && rest_[digits] >= '0' && rest_[digits] <= '9') {
    if (__builtin_mul_overflow(result, 10, &result) ||
        __builtin_add_overflow(result, rest_[digits] - '0', &result)) {
      return 0;
    }
    ++digits;
  }
  if (digits < least) return 0;
  rest_.remove_prefix(digits);
  value = result;
  return digits;
}

bool TextScanner::fraction(int64_t& nanoseconds) {
  int64_t unit = 100'000'000;
  const size_t before = rest_.size();
  nanoseconds = 0;
  for (; !rest_.empty() && rest_.front() >= '0' && rest_.front() <= '9'; skip()) {
    nanoseconds += (rest_.front() - '0') * unit;
    unit /= 10;
  }
  return rest_.size() < before;
}

TextScanner::HalfDay TextScanner::half_day(int64_t& hour) {
  if (rest_.size() < 2 || lower(rest_[1]) != 'm') return HalfDay::kAbsent;
  const char half = lower(rest_[0]);
  if (half != 'a' && half != 'p') return HalfDay::kAbsent;
  if (hour < 1 || hour > 12) return HalfDay::kWrongHour;
  hour = hour % 12 + (half == 'p' ? 12 : 0);
  rest_.remove_prefix(2);
  return HalfDay::kApplied;
}

bool TextScanner::month_name(int64_t& month) {
  for (size_t i = 0; i < kMonths.size(); ++i) {
    for (const size_t length : {kMonths[i].size(), size_t{3}}) {
      if (rest_.size() < length) continue;
      const bool same =
          std::equal(rest_.begin(), rest_.begin() + static_cast<std::ptrdiff_t>(length),
                     kMonths[i].begin(), [](char a, char b) { return lower(a) == b; });
      if (!same) continue;
      rest_.remove_prefix(length);
      month = static_cast<int64_t>(i) + 1;
      return true;
    }
  }
  return false;
}

bool scan_zone(TextScanner& text, int64_t& seconds) {
  seconds = 0;
  bool named = text.literal("UTC") || text.literal("GMT");
  if (!named && (text.literal("Z") || text.literal("z"))) return true;
  const bool negative = text.at('-');
  if (!text.at('-') && !text.at('+')) return named;
  text.skip();
  int64_t hours = 0;
  int64_t minutes = 0;
  const size_t digits = text.number(hours, 1, 4);
  if (digits == 0) return false;
  if (digits >= 3) {
    minutes = hours % 100;
    hours /= 100;
  } else if (text.literal(":") && text.number(minutes, 2, 2) != 2) {
    return false;
  }
  if (hours > 14 || minutes > 59) return false;
  seconds = (hours * 60 + minutes) * (negative ? -60 : 60);
  return true;
}

bool scan_format(TextScanner& text, std::string_view format, FormatFields& fields) {
  constexpr std::string_view kKnown = "YymdeIHMSfjpbBhzFTs%";
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] == '%' && (i + 1 == format.size() || kKnown.find(format[i + 1]) == kKnown.npos)) {
      throw DataError("the time format '" + std::string(format) + "' has '" +
                      std::string(format.substr(i, 2)) +
                      "', which is not known; use %Y %m %d %H %M %S %f %z %b %p %I %j %y %s");
    }
    if (format[i] == '%') ++i;
  }
  bool half_day_hour = false;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] == ' ') {
      text.blanks();
    } else if (format[i] != '%') {
      if (!text.literal(format.substr(i, 1))) return false;
    } else if (!scan_specifier(text, format[++i], fields, half_day_hour)) {
      return false;
    }
  }
  return !half_day_hour;  // %I without %p leaves the half of the day open
}

}  // namespace longship::data
