#include "data/time_format.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "data/time_parser.h"

namespace longship::data {
namespace {

TEST(TimeFormatTest, FormatsOfDatesThatAreNotRecognisedReadThem) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"20201231", "%Y%m%d"},
      {"2020123123", "%Y%m%d%H"},
      {"202012312359", "%Y%m%d%H%M"},
      {"20201231235958", "%Y%m%d%H%M%S"},
      {"31.12.2020", "%d.%m.%Y"},
      {"1.2.20", "%d.%m.%y"},
      {"31.12.2020 06:00:01", "%d.%m.%Y %H:%M:%S"},
      {"2020.12.31 06:00", "%Y.%m.%d %H:%M"},
      {"5 Mar 2020", "%d %b %Y"},
      {"5-Mar-20 07:08", "%d-%b-%y %H:%M"},
      {"March 5, 2020 07:08 PM", "%b %d, %Y %I:%M %p"},
      {"20200305T07:08:09.5 +01:00", "%Y%m%dT%H:%M:%S.%f %z"},
      {"2020-03-05 07", "%Y-%m-%d %H"},
      {"2020-3-5", "%Y-%m-%d"},
      {"12-31-2020", "%m-%d-%Y"},
      {"31/12/20 7:08", "%d/%m/%y %H:%M"},
  };
  for (const auto& [text, format] : cases) {
    EXPECT_EQ(likely_time_format(text), format) << text;
    EXPECT_TRUE(parse_by_format(text, format)) << text;
  }
}

TEST(TimeFormatTest, YearsThatNanosecondsDoNotReachAreTold) {
  for (const char* text : {"1600-01-01", "9999-12-31T23:59:59Z", "31.12.9999", "1/1/1600 06:00",
                           "2262-05-01", "1677-01-01"}) {
    EXPECT_FALSE(parse_stamp(text)) << text;
    EXPECT_TRUE(beyond_range(text)) << text;
  }
  EXPECT_TRUE(beyond_range("99991231", "%Y%m%d"));
  for (const char* text : {"2020-02-30", "1600-13-01", "soon", "", "9999", "1600-01-01x"}) {
    EXPECT_FALSE(beyond_range(text)) << text;
  }
  EXPECT_FALSE(beyond_range("20200230", "%Y%m%d"));
}

TEST(TimeFormatTest, OtherTextsAndEitherOrderHaveNone) {
  for (const char* text :
       {"", "20201301", "2020123124", "1577836800", "17010101", "12.31.2020", "1.299.999", "1.5",
        "31.12.2020 6 Uhr", "01-02-2020", "1/2/13", "Oslo", "-20.5", "192.168.0.1"}) {
    EXPECT_FALSE(likely_time_format(text)) << text;
  }
}

TEST(TimeFormatTest, ClocksFollowAGivenDate) {
  EXPECT_EQ(format_with_clock("1/2/2013 3:05 PM", "%d/%m/%Y"), "%d/%m/%Y %I:%M %p");
  EXPECT_EQ(format_with_clock("1/2/2013", "%d/%m/%Y"), "%d/%m/%Y");
  EXPECT_FALSE(format_with_clock("1/2/2013 noon", "%d/%m/%Y"));
}

TEST(TimeFormatTest, OnlyDigitsMakeACalendarFormat) {
  EXPECT_EQ(calendar_format("2013010106"), "%Y%m%d%H");
  EXPECT_FALSE(calendar_format("20130101 06"));
  EXPECT_FALSE(calendar_format("2013-01-01"));
}

}  // namespace
}  // namespace longship::data
