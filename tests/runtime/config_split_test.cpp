#include "runtime/config_split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include <string>
#include <variant>

#include "runtime/config_numbers.h"

namespace longship::runtime {
namespace {

using testing::HasSubstr;

std::string split_error(const std::string& text) {
  try {
    parse_split(YAML::Load(text));
  } catch (const ValueError& error) {
    return error.what();
  }
  return "no error";
}

TEST(ParseSplit, ReadsShares) {
  const data::SplitSpec split = parse_split(YAML::Load("[0.7, .1, 2e-1]"));
  EXPECT_EQ(std::get<data::SplitFractions>(split), (data::SplitFractions{0.7, 0.1, 0.2}));
}

TEST(ParseSplit, ReadsRowRanges) {
  const data::SplitSpec split =
      parse_split(YAML::Load("[[0, 8640], [8640, 11520], [11520, 14400]]"));
  EXPECT_EQ(std::get<data::SplitRows>(split),
            (data::SplitRows{{{0, 8640}, {8640, 11520}, {11520, 14400}}}));
}

TEST(ParseSplit, ReadsDates) {
  const data::SplitSpec split =
      parse_split(YAML::Load("{validation: 2013-10-01, test: \"2013-11-15T06:00:00+01:00\"}"));
  EXPECT_EQ(std::get<data::SplitDates>(split),
            (data::SplitDates{1380585600000000000, 1384491600000000000}));
}

TEST(ParseSplit, RefusesSharesThatCannotBe) {
  EXPECT_THAT(split_error("[0.7, 0.2, 0.2]"), HasSubstr("the shares sum to 1.1"));
  EXPECT_THAT(split_error("[-0.1, 0.2, 0.2]"), HasSubstr("train share -0.1 is not between"));
  EXPECT_THAT(split_error("[0, 0.5, 0.5]"), HasSubstr("nothing to train on"));
  EXPECT_THAT(split_error("[0.7, 0.3]"), HasSubstr("is not a split"));
  EXPECT_THAT(split_error("0.7"), HasSubstr("is not a split"));
  EXPECT_THAT(split_error("[\"0.7\", 0.1, 0.2]"), HasSubstr("is quoted"));
  EXPECT_THAT(split_error("[0.7, [1, 2], 0.2]"), HasSubstr("mixes shares and row ranges"));
}

TEST(ParseSplit, RefusesRangesThatCannotBe) {
  EXPECT_THAT(split_error("[[0, 10], [5, 20], [20, 30]]"),
              HasSubstr("validation range [5, 20] begins before the train range ends"));
  EXPECT_THAT(split_error("[[10, 0], [10, 20], [20, 30]]"), HasSubstr("runs backwards"));
  EXPECT_THAT(split_error("[[-1, 5], [5, 20], [20, 30]]"), HasSubstr("begins before row 0"));
  EXPECT_THAT(split_error("[[0, 0], [5, 20], [20, 30]]"), HasSubstr("nothing to train on"));
  EXPECT_THAT(split_error("[[0, 5, 6], [5, 20], [20, 30]]"), HasSubstr("pair of rows"));
  EXPECT_EQ(split_error("[[0, 10], [10, 10], [10, 10]]"), "no error");
}

TEST(ParseSplit, RefusesDatesThatCannotBe) {
  EXPECT_THAT(split_error("{validation: 2013-10-01}"), HasSubstr("date of test is missing"));
  EXPECT_THAT(split_error("{train: 2013-10-01, test: 2014-01-01}"),
              HasSubstr("'train' is unknown"));
  EXPECT_THAT(split_error("{validation: 2013-10-01, test: 2013-01-01}"),
              HasSubstr("test date lies before"));
  EXPECT_THAT(split_error("{validation: 2013-02-30, test: 2013-11-01}"),
              HasSubstr("not a date of the calendar"));
  EXPECT_THAT(split_error("{validation: 01/10/2013, test: 2013-11-01}"),
              HasSubstr("is not a date"));
  EXPECT_THAT(split_error("{test: 2013-01-01, test: 2013-11-01}"), HasSubstr("given twice"));
}

TEST(ParseDate, KnowsZonesAndTheTimeOfDay) {
  EXPECT_EQ(parse_date("1970-01-01"), 0);
  EXPECT_EQ(parse_date("1970-01-02 00:00"), 86400000000000);
  EXPECT_EQ(parse_date("1970-01-01T00:00:01Z"), 1000000000);
  EXPECT_EQ(parse_date("1970-01-01T01:30:00+01:30"), 0);
  EXPECT_EQ(parse_date("1969-12-31T19:00:00-0500"), 0);
  EXPECT_EQ(parse_date("2016-02-29"), 1456704000000000000);
}

TEST(FormatSplit, ReadsBackAsTheSame) {
  for (const char* text : {"[0.7, 0.1, 0.2]", "[[0, 8640], [8640, 11520], [11520, 14400]]",
                           "{validation: \"2013-10-01\", test: \"2013-11-15T05:00:07Z\"}",
                           "{validation: \"1969-12-30\", test: \"1969-12-31T23:59:59Z\"}"}) {
    const data::SplitSpec split = parse_split(YAML::Load(text));
    EXPECT_EQ(format_split(split), text);
    EXPECT_EQ(parse_split(YAML::Load(format_split(split))), split);
  }
}

}  // namespace
}  // namespace longship::runtime
