#include "data/time_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "data/calendar.h"
#include "data/error.h"
#include "test_files.h"

namespace longship::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string parsed(const std::string& text) {
  const auto stamp = parse_stamp(text);
  return stamp ? format_time(stamp->ns) + (stamp->zoned ? "" : " local") : "none";
}

std::string by_format(const std::string& text, const std::string& format) {
  const auto stamp = parse_by_format(text, format);
  return stamp ? format_time(stamp->ns) + (stamp->zoned ? "" : " local") : "none";
}

TEST(TimeParserTest, ReadsIsoStamps) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"2013-01-01T06:00:00Z", "2013-01-01T06:00:00Z"},
      {"2016-07-01 00:00:00", "2016-07-01T00:00:00Z local"},
      {"2016-07-01 05:30", "2016-07-01T05:30:00Z local"},
      {"2012-02-29", "2012-02-29T00:00:00Z local"},
      {"1962-01", "1962-01-01T00:00:00Z local"},
      {"1969-12-31T23:59:59.25Z", "1969-12-31T23:59:59.25Z"},
      {"2020-01-01T00:30:00.123456789+01:00", "2019-12-31T23:30:00.123456789Z"},
      {"2020-01-01 00:00:00 -0530", "2020-01-01T05:30:00Z"},
      {"2020-01-01 12:00 UTC", "2020-01-01T12:00:00Z"},
      {"2012/01/02", "2012-01-02T00:00:00Z local"},
      {"30.12.2020", "2020-12-30T00:00:00Z local"},
      {"1.2.2020 06:07", "2020-02-01T06:07:00Z local"},
      {"30.12.2020 06:07:08.5", "2020-12-30T06:07:08.5Z local"},
      {"30.12.2020 06:07 +01:00", "2020-12-30T05:07:00Z"},
      {"1/31/2013 3:05 PM", "2013-01-31T15:05:00Z local"},
      {"1/31/2013 12:05 AM", "2013-01-31T00:05:00Z local"},
  };
  for (const auto& [text, expected] : cases) EXPECT_EQ(parsed(text), expected) << text;
}

TEST(TimeParserTest, RefusesWhatIsNoStamp) {
  for (const char* text :
       {"", "20130101", "1356998400", "2013-02-29", "2013-13-01", "2013-01-01T24:00", "2013-1-1",
        "2013-01-01 06:00:00 Mars", "12.5", "1/2/13", "32/13/2013", "2013-01-01x", "12.31.2020",
        "1.2.20", "30.12.2020 24:00", "13:00", "1/31/2013 13:05 PM"}) {
    EXPECT_EQ(parsed(text), "none") << text;
  }
}

TEST(TimeParserTest, EpochsByTheirDigits) {
  EXPECT_EQ(parse_epoch("1577836800")->ns, 1'577'836'800'000'000'000);
  EXPECT_EQ(parse_epoch("1577836800.2")->ns, 1'577'836'800'200'000'000);
  EXPECT_EQ(parse_epoch("1577836800001")->ns, 1'577'836'800'001'000'000);
  EXPECT_EQ(parse_epoch("1577836800000001")->ns, 1'577'836'800'000'001'000);
  EXPECT_EQ(parse_epoch("1577836800000000001")->ns, 1'577'836'800'000'000'001);
  EXPECT_FALSE(parse_epoch("19580329"));
  EXPECT_FALSE(parse_epoch("1577836800x"));
  EXPECT_EQ(parse_epoch("-9223372036")->ns, -9'223'372'036'000'000'000);
  EXPECT_FALSE(parse_epoch("9223372037"));  // nanoseconds of 64 bits end before
  EXPECT_FALSE(parse_epoch("9223372036.9"));
  EXPECT_FALSE(parse_epoch("9999999999999999"));
}

TEST(TimeParserTest, FollowsAFormat) {
  EXPECT_EQ(by_format("19580329", "%Y%m%d"), "1958-03-29T00:00:00Z local");
  EXPECT_EQ(by_format("31.1.2013 06:07", "%d.%m.%Y %H:%M"), "2013-01-31T06:07:00Z local");
  EXPECT_EQ(by_format("Mar 5, 2020 07:08 pm", "%b %d, %Y %I:%M %p"), "2020-03-05T19:08:00Z local");
  EXPECT_EQ(by_format("2020-060 1.5", "%Y-%j %S.%f"), "2020-02-29T00:00:01.5Z local");
  EXPECT_EQ(by_format("2020-01-01T00:00:00+0200", "%FT%T%z"), "2019-12-31T22:00:00Z");
  EXPECT_EQ(by_format("86400", "epoch-s"), "1970-01-02T00:00:00Z");
  EXPECT_EQ(by_format("86400000", "epoch-ms"), "1970-01-02T00:00:00Z");
  EXPECT_EQ(by_format("9223372036", "%s"), "2262-04-11T23:47:16Z");
  EXPECT_EQ(by_format("99999999999", "%s"), "none");
  EXPECT_EQ(by_format("9223372036.9", "epoch-s"), "none");
  EXPECT_EQ(by_format("9223372036-0100", "%s%z"), "none");
  EXPECT_EQ(by_format("2020-01-01 00:00:00+01", "%F %T%z"), "2019-12-31T23:00:00Z");
  EXPECT_EQ(by_format("31/02/2013", "%d/%m/%Y"), "none");
  EXPECT_EQ(by_format("2021-366", "%Y-%j"), "none");
  EXPECT_EQ(by_format("07:08", "%I:%M"), "none");
  EXPECT_THAT(message_of<DataError>([] { parse_by_format("1", "%Q"); }), HasSubstr("'%Q'"));
  EXPECT_THROW(parse_by_format("1", "epoch-days"), DataError);
}

TEST(TimeParserTest, ZonesAreFixedOffsets) {
  EXPECT_EQ(zone_offset("UTC"), 0);
  EXPECT_EQ(zone_offset("+01:00"), 3600);
  EXPECT_EQ(zone_offset("-0530"), -19800);
  EXPECT_EQ(zone_offset("UTC+2"), 7200);
  EXPECT_THAT(message_of<DataError>([] { zone_offset("Europe/Oslo"); }), HasSubstr("Europe/Oslo"));
  TimeColumn column("", "+01:00", false);
  EXPECT_EQ(format_time(column.parse("2020-01-01 00:00", "f:2")), "2019-12-31T23:00:00Z");
}

TEST(TimeParserTest, SlashDatesNeedAProof) {
  TimeColumn column("", "", false);
  EXPECT_EQ(format_time(column.parse("2/1/2013", "f:2")), "2013-02-01T00:00:00Z");
  EXPECT_EQ(column.order(), TimeColumn::Order::kUnproved);
  EXPECT_EQ(format_time(column.parse("13/1/2013", "f:3")), "2013-01-13T00:00:00Z");
  EXPECT_EQ(column.order(), TimeColumn::Order::kDayFirst);
  EXPECT_THAT(column.take_day_first(), ElementsAre(*to_nanoseconds({2013, 1, 2})));
  EXPECT_THAT(column.take_day_first(), IsEmpty());
  EXPECT_EQ(format_time(column.parse("3/4/2013", "f:4")), "2013-04-03T00:00:00Z");
  EXPECT_THAT(message_of<DataError>([&] { column.parse("1/31/2013", "f:5"); }),
              ::testing::AllOf(HasSubstr("f:5"), HasSubstr("f:3")));
}

TEST(TimeParserTest, OneColumnHasOneStyle) {
  TimeColumn column("", "", false);
  column.parse("2013-01-01", "f:2");
  EXPECT_THAT(message_of<DataError>([&] { column.parse("2013/01/02", "f:3"); }),
              ::testing::AllOf(HasSubstr("f:3"), HasSubstr("f:2")));
  EXPECT_THAT(message_of<DataError>([&] { column.parse("2013-01-01T00:00Z", "f:4"); }),
              HasSubstr("has a time zone"));
  EXPECT_THAT(message_of<DataError>([&] { column.parse("1356998400", "f:5"); }),
              HasSubstr("--time-format"));
  TimeColumn named("", "", true);
  EXPECT_EQ(named.parse("1356998400", "f:2"), 1'356'998'400'000'000'000);
  EXPECT_THROW(named.parse("1356998400000", "f:3"), DataError);
}

TEST(TimeParserTest, OnlyAFormatThatReadsTheTextIsAdvised) {
  const auto advice = [](const std::string& text) {
    return message_of<DataError>([&] { TimeColumn("", "", false).parse(text, "f:2"); });
  };
  EXPECT_THAT(advice("20130101"), HasSubstr("one; give --time-format '%Y%m%d'"));
  EXPECT_THAT(advice("1.2.20 06:00"), HasSubstr("one; give --time-format '%d.%m.%y %H:%M'"));
  EXPECT_THAT(advice("123456"),
              HasSubstr("counts from 1970, give --time-format epoch-s, epoch-ms"));
  EXPECT_EQ(advice("soon"),
            "f:2: 'soon' is not a time, or not a recognised one; write it as ISO 8601 (2020-12-31 "
            "06:00:00), or give a --time-format that reads it");
  // No format reads both.
  TimeColumn column("", "", false);
  column.parse("2013-01-01", "f:2");
  EXPECT_THAT(message_of<DataError>([&] { column.parse("2.1.2013", "f:3"); }),
              HasSubstr("than the time at f:2, '2013-01-01'; one column has one format: write"));
  TimeColumn epochs("", "", true);
  epochs.parse("1000000000", "f:2");
  EXPECT_THAT(message_of<DataError>([&] { epochs.parse("1000000000000", "f:3"); }),
              HasSubstr("give --time-format epoch-s"));
  TimeColumn formatted("%Y", "", true);
  EXPECT_THAT(message_of<DataError>([&] { formatted.parse("20", "f:3"); }),
              HasSubstr("'20' is not a time of the format %Y; correct it"));
  EXPECT_EQ(
      advice("1600-01-01"),
      "f:2: '1600-01-01' is no time from 1677-09-21 to 2262-04-11, which times in nanoseconds "
      "are limited to; correct it, or leave out the row");
  EXPECT_THAT(message_of<DataError>([&] { formatted.parse("9999", "f:3"); }),
              HasSubstr("f:3: '9999' is no time from 1677-09-21 to 2262-04-11"));
}

}  // namespace
}  // namespace longship::data
