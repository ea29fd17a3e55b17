#include "data/calendar.h"

#include <gtest/gtest.h>

namespace longship::data {
namespace {

TEST(CalendarTest, CountsNanosecondsFrom1970) {
  EXPECT_EQ(to_nanoseconds({}), 0);
  EXPECT_EQ(to_nanoseconds({2013, 1, 1, 6, 0, 0, 7}), 1'357'020'000'000'000'007);
  EXPECT_EQ(to_nanoseconds({2000, 2, 29}), 951'782'400'000'000'000);
  EXPECT_EQ(to_nanoseconds({1969, 12, 31, 23, 59, 59, 999'999'999}), -1);
}

TEST(CalendarTest, YearsThatFitAre1678To2261) {
  EXPECT_EQ(to_nanoseconds({1678, 1, 1}), -9'214'560'000'000'000'000);
  EXPECT_EQ(to_nanoseconds({2261, 12, 31, 23, 59, 59, 999'999'999}), 9'214'646'399'999'999'999);
  EXPECT_FALSE(to_nanoseconds({1677, 12, 31}));
  EXPECT_FALSE(to_nanoseconds({2262, 1, 1}));
  EXPECT_FALSE(to_nanoseconds({int64_t{1} << 40, 1, 1}));
}

TEST(CalendarTest, RefusesPartsOutOfRange) {
  // 257 is 1 in the eight bits that std::chrono has for months and days.
  for (const CivilTime& time :
       {CivilTime{2013, 2, 29}, CivilTime{1900, 2, 29}, CivilTime{2013, 4, 31},
        CivilTime{2013, 0, 1}, CivilTime{2013, 13, 1}, CivilTime{2013, 257, 1},
        CivilTime{2013, 1, 0}, CivilTime{2013, 1, 32}, CivilTime{2013, 1, 257},
        CivilTime{2013, 1, 1, 24}, CivilTime{2013, 1, 1, -1}, CivilTime{2013, 1, 1, 0, 60},
        CivilTime{2013, 1, 1, 0, 0, 60}, CivilTime{2013, 1, 1, 0, 0, 0, kSecondNs}}) {
    EXPECT_FALSE(to_nanoseconds(time)) << time.year << '-' << time.month << '-' << time.day << ' '
                                       << time.hour << ':' << time.minute << ':' << time.second;
  }
}

TEST(CalendarTest, TakesStampsApart) {
  const CivilTime before = to_civil(-1);
  EXPECT_EQ(before.year, 1969);
  EXPECT_EQ(before.month, 12);
  EXPECT_EQ(before.day, 31);
  EXPECT_EQ(before.hour, 23);
  EXPECT_EQ(before.minute, 59);
  EXPECT_EQ(before.second, 59);
  EXPECT_EQ(before.nanosecond, 999'999'999);
  EXPECT_EQ(to_civil(951'782'400'000'000'000).day, 29);
  // Steps of 97 days and a bit through all years.
  constexpr int64_t kStep = 97 * kDayNs + 12'345'678'987'654;
  const int64_t last = *to_nanoseconds({2261, 12, 31});
  for (int64_t stamp = *to_nanoseconds({1678, 1, 1}); stamp < last; stamp += kStep) {
    ASSERT_EQ(to_nanoseconds(to_civil(stamp)), stamp);
  }
}

}  // namespace
}  // namespace longship::data
