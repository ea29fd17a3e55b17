#pragma once

#include <cstdint>
#include <optional>

namespace longship::data {

inline constexpr int64_t kSecondNs = 1'000'000'000;
inline constexpr int64_t kDayNs = 86'400 * kSecondNs;

// A time of the proleptic Gregorian calendar, without a zone.
struct CivilTime {
  int64_t year = 1970;
  int64_t month = 1;
  int64_t day = 1;
  int64_t hour = 0;
  int64_t minute = 0;
  int64_t second = 0;
  int64_t nanosecond = 0;
};

// Nanoseconds since 1970; nothing when a part is out of its range (31 April, hour 24) or the result
// does not fit (years 1678 to 2261 do).
std::optional<int64_t> to_nanoseconds(const CivilTime& time);
CivilTime to_civil(int64_t nanoseconds);

}  // namespace longship::data
