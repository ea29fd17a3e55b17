#include "data/split_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "data/error.h"
#include "test_files.h"

namespace longship::data {
namespace {

using ::testing::HasSubstr;

SplitBounds bounds(int64_t a, int64_t b, int64_t c, int64_t d, int64_t e, int64_t f) {
  return {{{a, b}, {c, d}, {e, f}}};
}

TEST(SplitRowsTest, SharesThatAddUpToOneLeaveTheRestToValidation) {
  EXPECT_EQ(split_rows(SplitFractions{0.7, 0.1, 0.2}, 7588, {}),
            bounds(0, 5311, 5311, 6071, 6071, 7588));
  EXPECT_EQ(split_rows(SplitFractions{0.8, 0, 0.2}, 11, {}), bounds(0, 8, 8, 8, 8, 11));
  EXPECT_EQ(split_rows(SplitFractions{0.8, 0.2, 0}, 11, {}), bounds(0, 8, 8, 11, 11, 11));
  EXPECT_EQ(split_rows(SplitFractions{1, 0, 0}, 11, {}), bounds(0, 11, 11, 11, 11, 11));
}

TEST(SplitRowsTest, SharesBelowOneLeaveTheEndUnused) {
  EXPECT_EQ(split_rows(SplitFractions{0.5, 0.25, 0.125}, 17, {}), bounds(0, 8, 8, 12, 12, 14));
}

TEST(SplitRowsTest, RangesAreClippedToTheSeries) {
  const SplitRows ranges = {{{0, 8640}, {8640, 11520}, {11520, 14400}}};
  EXPECT_EQ(split_rows(ranges, 17420, {}), bounds(0, 8640, 8640, 11520, 11520, 14400));
  EXPECT_EQ(split_rows(ranges, 9000, {}), bounds(0, 8640, 8640, 9000, 9000, 9000));
}

TEST(SplitRowsTest, DatesAreTheFirstStampsOfTheirParts) {
  const std::vector<int64_t> time = {10, 20, 30, 40, 50};
  EXPECT_EQ(split_rows(SplitDates{30, 45}, 5, time), bounds(0, 2, 2, 4, 4, 5));
  EXPECT_EQ(split_rows(SplitDates{0, 60}, 5, time), bounds(0, 0, 0, 5, 5, 5));
  EXPECT_THROW(split_rows(SplitDates{30, 45}, 5, {}), DataError);
}

TEST(SplitRowsTest, RefusesWhatIsNoChronologicalSplit) {
  EXPECT_THAT(message_of<DataError>([] {
                check_split(SplitFractions{0.8, 0.3, 0.2});
              }),
              HasSubstr("1.3"));
  EXPECT_THAT(message_of<DataError>([] {
                check_split(SplitFractions{-0.1, 0.3, 0.2});
              }),
              HasSubstr("share of train"));
  EXPECT_THAT(message_of<DataError>([] {
                check_split(SplitRows{{{0, 10}, {8, 12}, {12, 14}}});
              }),
              HasSubstr("[8, 12] of validation"));
  EXPECT_THAT(message_of<DataError>([] {
                check_split(SplitRows{{{0, 10}, {12, 11}, {12, 14}}});
              }),
              HasSubstr("[12, 11]"));
  EXPECT_THAT(message_of<DataError>([] { check_split(SplitDates{5, 4}); }), HasSubstr("before"));
  check_split(SplitRows{{{0, 10}, {0, 0}, {10, 14}}});
}

}  // namespace
}  // namespace longship::data
