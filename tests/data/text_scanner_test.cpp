#include "data/text_scanner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "data/error.h"
#include "test_files.h"

namespace longship::data {
namespace {

using ::testing::HasSubstr;

TEST(TextScannerTest, NumbersHaveTheWantedCountOfDigitsOrStay) {
  TextScanner text("2013-01");
  int64_t value = -7;
  EXPECT_EQ(text.number(value, 5, 6), 0U);
  EXPECT_EQ(value, -7);
  EXPECT_EQ(text.number(value, 1, 3), 3U);
  EXPECT_EQ(value, 201);
  EXPECT_TRUE(text.at('3'));
  EXPECT_EQ(text.number(value, 1, 9), 1U);
  EXPECT_EQ(text.number(value, 1, 9), 0U);  // a sign is no digit
  EXPECT_TRUE(text.literal("-01"));
  EXPECT_TRUE(text.done());
  EXPECT_EQ(text.number(value, 0, 2), 0U);
}

TEST(TextScannerTest, NumbersBeyond64BitsAreNone) {
  int64_t value = 0;
  TextScanner largest("9223372036854775807");
  EXPECT_EQ(largest.number(value, 1, 20), 19U);
  EXPECT_EQ(value, std::numeric_limits<int64_t>::max());
  TextScanner beyond("9223372036854775808");
  EXPECT_EQ(beyond.number(value, 1, 20), 0U);
  EXPECT_TRUE(beyond.at('9'));
}

TEST(TextScannerTest, LiteralsAndBlanksAreTakenWholeOrNot) {
  TextScanner text("UTC  x");
  EXPECT_FALSE(text.literal("UTC+"));
  EXPECT_FALSE(text.blanks());
  EXPECT_TRUE(text.literal("UTC"));
  EXPECT_TRUE(text.blanks());
  EXPECT_FALSE(text.blanks());
  EXPECT_TRUE(text.at('x'));
}

TEST(TextScannerTest, FractionsAreNanosecondsAndCutAfterNineDigits) {
  int64_t value = 0;
  TextScanner text("25Z");
  EXPECT_TRUE(text.fraction(value));
  EXPECT_EQ(value, 250'000'000);
  EXPECT_TRUE(text.at('Z'));
  EXPECT_FALSE(text.fraction(value));
  TextScanner digits("1234567899");
  EXPECT_TRUE(digits.fraction(value));
  EXPECT_EQ(value, 123'456'789);
  EXPECT_TRUE(digits.done());
}

TEST(TextScannerTest, HalfDaysTurnHoursOf1To12) {
  using Half = TextScanner::HalfDay;
  const auto turned = [](int64_t hour, const char* text) {
    EXPECT_EQ(TextScanner(text).half_day(hour), Half::kApplied) << hour << text;
    return hour;
  };
  EXPECT_EQ(turned(12, "AM"), 0);
  EXPECT_EQ(turned(1, "am"), 1);
  EXPECT_EQ(turned(12, "pm"), 12);
  EXPECT_EQ(turned(11, "Pm"), 23);
  for (int64_t hour : {0, 13}) EXPECT_EQ(TextScanner("PM").half_day(hour), Half::kWrongHour);
  int64_t hour = 3;
  for (const char* text : {"", "A", "xm", "ax"}) {
    EXPECT_EQ(TextScanner(text).half_day(hour), Half::kAbsent) << text;
  }
  EXPECT_EQ(hour, 3);
}

TEST(TextScannerTest, MonthsAreTakenByTheLongestName) {
  int64_t month = 0;
  TextScanner full("march5");
  EXPECT_TRUE(full.month_name(month));
  EXPECT_EQ(month, 3);
  EXPECT_TRUE(full.at('5'));
  TextScanner half("Sept");
  EXPECT_TRUE(half.month_name(month));
  EXPECT_EQ(month, 9);
  EXPECT_TRUE(half.at('t'));
  TextScanner none("Ma");
  EXPECT_FALSE(none.month_name(month));
  EXPECT_TRUE(none.at('M'));
}

// What a format takes from a whole text; year -1 when it does not match.
FormatFields scanned(std::string_view text, std::string_view format) {
  FormatFields fields;
  TextScanner scanner(text);
  if (!scan_format(scanner, format, fields) || !scanner.done()) fields.time.year = -1;
  return fields;
}

TEST(ScanFormatTest, ZonesAreOffsetsUpTo14Hours) {
  EXPECT_EQ(scanned("+0530", "%z").offset, 19'800);
  EXPECT_EQ(scanned("-01:00", "%z").offset, -3'600);
  EXPECT_EQ(scanned("+1459", "%z").offset, 53'940);
  EXPECT_EQ(scanned("+05", "%z").offset, 18'000);  // as PostgreSQL writes it
  EXPECT_EQ(scanned("UTC+2", "%z").offset, 7'200);
  for (const char* text : {"Z", "UTC", "GMT"}) {
    EXPECT_TRUE(scanned(text, "%z").zoned) << text;
    EXPECT_EQ(scanned(text, "%z").offset, 0) << text;
  }
  for (const char* text : {"+1500", "+0560", "+5:3", "+", "0530", ""}) {
    EXPECT_EQ(scanned(text, "%z").time.year, -1) << text;
  }
}

TEST(ScanFormatTest, YearsOfTwoDigitsAreOf1969To2068) {
  EXPECT_EQ(scanned("69", "%y").time.year, 1969);
  EXPECT_EQ(scanned("68", "%y").time.year, 2068);
  EXPECT_EQ(scanned("7", "%y").time.year, -1);
}

TEST(ScanFormatTest, DaysOfTheYearAre1To366) {
  EXPECT_EQ(scanned("366", "%j").day_of_year, 366);
  EXPECT_EQ(scanned("1", "%j").day_of_year, 1);
  EXPECT_EQ(scanned("000", "%j").time.year, -1);
  EXPECT_EQ(scanned("367", "%j").time.year, -1);
}

TEST(ScanFormatTest, HoursOfHalfDaysNeedTheirHalf) {
  EXPECT_EQ(scanned("03 PM", "%I %p").time.hour, 15);
  EXPECT_EQ(scanned("03", "%I").time.year, -1);
  EXPECT_EQ(scanned("15 PM", "%I %p").time.year, -1);
}

TEST(ScanFormatTest, BlanksMatchAnyNumberAndOtherTextItself) {
  EXPECT_EQ(scanned("12   34%", "%H %M%%").time.minute, 34);
  EXPECT_EQ(scanned("1234%", "%H %M%%").time.minute, 34);
  EXPECT_EQ(scanned("12x34", "%H:%M").time.year, -1);
  EXPECT_EQ(scanned("1356998400", "%s").epoch, 1'356'998'400);
  EXPECT_FALSE(scanned("12", "%H").epoch);
}

TEST(ScanFormatTest, UnknownSpecifiersAreNamedWhateverTheText) {
  const auto refusal = [](const char* format) {
    return message_of<DataError>([&] { scanned("", format); });
  };
  EXPECT_THAT(refusal("%Y-%Q"), HasSubstr("the time format '%Y-%Q' has '%Q'"));
  EXPECT_THAT(refusal("%Y%"), HasSubstr("has '%'"));
  EXPECT_THAT(refusal("%%Q%W"), HasSubstr("has '%W'"));
}

}  // namespace
}  // namespace longship::data
