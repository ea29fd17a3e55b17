#include "data/calendar.h"

#include <chrono>

namespace longship::data {

std::optional<int64_t> to_nanoseconds(const CivilTime& time) {
  namespace chr = std::chrono;
  if (time.year < 1678 || time.year > 2261) return std::nullopt;
  const chr::year_month_day date{chr::year(static_cast<int>(time.year)),
                                 chr::month(static_cast<unsigned>(time.month)),
                                 chr::day(static_cast<unsigned>(time.day))};
  const bool in_range = time.month >= 1 && time.month <= 12 && time.day >= 1 && time.day <= 31 &&
                        date.ok() && time.hour >= 0 && time.hour < 24 && time.minute >= 0 &&
                        time.minute < 60 && time.second >= 0 && time.second < 60 &&
                        time.nanosecond >= 0 && time.nanosecond < kSecondNs;
  if (!in_range) return std::nullopt;
  const int64_t days = chr::sys_days(date).time_since_epoch().count();
  return days * kDayNs + ((time.hour * 60 + time.minute) * 60 + time.second) * kSecondNs +
         time.nanosecond;
}

CivilTime to_civil(int64_t nanoseconds) {
  namespace chr = std::chrono;
  const chr::sys_time<chr::nanoseconds> point{chr::nanoseconds(nanoseconds)};
  const chr::sys_days day = chr::floor<chr::days>(point);
  const chr::year_month_day date(day);
  const int64_t within = (point - day).count();
  CivilTime time;
  time.year = static_cast<int>(date.year());
  time.month = static_cast<unsigned>(date.month());
  time.day = static_cast<unsigned>(date.day());
  time.hour = within / (3600 * kSecondNs);
  time.minute = within / (60 * kSecondNs) % 60;
  time.second = within / kSecondNs % 60;
  time.nanosecond = within % kSecondNs;
  return time;
}

}  // namespace longship::data
