#include "data/time_format.h"

#include <algorithm>
#include <array>
#include <utility>

#include "data/calendar.h"
#include "data/time_parser.h"

namespace longship::data {

std::optional<std::string> format_with_clock(std::string_view text, const std::string& date) {
  // A blank also matches none: " %I:%M %p" reads "3:05PM".
  for (const char* clock : {"", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p",
                            " %H", "T%H:%M", "T%H:%M:%S", "T%H:%M:%S.%f", "T%H"}) {
    for (const char* zone : {"", " %z"}) {
      std::string format = date + clock + zone;
      if (parse_by_format(text, format)) return format;
    }
  }
  return std::nullopt;
}

std::optional<std::string> calendar_format(std::string_view text) {
  constexpr std::array<std::pair<size_t, const char*>, 4> kWithoutMarks = {
      {{8, "%Y%m%d"}, {10, "%Y%m%d%H"}, {12, "%Y%m%d%H%M"}, {14, "%Y%m%d%H%M%S"}}};
  const bool digits =
      std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  for (const auto& [size, format] : kWithoutMarks) {
    if (!digits || text.size() != size) continue;
    const auto stamp = parse_by_format(text, format);
    if (!stamp) return std::nullopt;
    const int64_t year = to_civil(stamp->ns).year;
    return year >= 1900 && year <= 2100 ? std::optional<std::string>(format) : std::nullopt;
  }
  return std::nullopt;
}

std::optional<std::string> likely_time_format(std::string_view text) {
  if (auto format = calendar_format(text)) return format;
  if (text.size() < 6 || text.find_first_not_of("0123456789") == std::string_view::npos) {
    return std::nullopt;
  }
  for (const char* date : {"%d.%m.%Y", "%d.%m.%y", "%Y.%m.%d", "%d %b %Y", "%d-%b-%Y", "%d-%b-%y",
                           "%b %d %Y", "%b %d, %Y", "%Y%m%d", "%Y-%m-%d"}) {
    if (auto format = format_with_clock(text, date)) return format;
  }
  const std::pair<const char*, const char*> kEitherWay[] = {{"%d-%m-%Y", "%m-%d-%Y"},
                                                            {"%d/%m/%y", "%m/%d/%y"}};
  for (const auto& [day_first, month_first] : kEitherWay) {
    auto day = format_with_clock(text, day_first);
    auto month = format_with_clock(text, month_first);
    if (day.has_value() != month.has_value()) return day ? day : month;
  }
  return std::nullopt;
}

bool beyond_range(std::string_view text, const std::string& format) {
  const auto digit = [&](size_t i) { return i < text.size() && text[i] >= '0' && text[i] <= '9'; };
  for (size_t begin = 0; begin < text.size();) {
    size_t end = begin;
    while (digit(end)) ++end;
    // Digits without marks start with the year.
    const bool year = end - begin == 4 || (begin == 0 && end >= 8);
    if (year) {
      const std::string_view digits = text.substr(begin, 4);
      if (digits > "1677" && digits < "2262") return false;
      const std::string near =
          std::string(text.substr(0, begin)) + "2000" + std::string(text.substr(begin + 4));
      return format.empty() ? parse_stamp(near).has_value()
                            : parse_by_format(near, format).has_value();
    }
    begin = end + 1;
  }
  return false;
}

}  // namespace longship::data
