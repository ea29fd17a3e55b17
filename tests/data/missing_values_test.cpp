#include "data/missing_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "data/error.h"
#include "test_files.h"

namespace longship::data {
namespace {

using ::testing::ElementsAre;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> filled(std::vector<float> values, MissingPolicy policy,
                          std::vector<int64_t> borders = {}) {
  EXPECT_TRUE(fill_column(values.data(), static_cast<int64_t>(values.size()), 1, borders, policy));
  return values;
}

TEST(MissingValuesTest, InterpolatesBetweenNeighboursAndHoldsTheEnds) {
  EXPECT_THAT(filled({kNaN, 1, kNaN, kInfinity, 4, kNaN}, MissingPolicy::kInterpolate),
              ElementsAre(1, 1, 2, 3, 4, 4));
}

TEST(MissingValuesTest, ForwardFillTakesTheValueBefore) {
  EXPECT_THAT(filled({kNaN, 1, kNaN, kNaN, 4, kNaN}, MissingPolicy::kForwardFill),
              ElementsAre(1, 1, 1, 1, 4, 4));
}

TEST(MissingValuesTest, NoRowBeforeABorderSeesAValueAfterIt) {
  // Rows 1 to 3 are missing, validation starts at row 3: rows 1 and 2 hold, row 3 is on the line.
  EXPECT_THAT(filled({0, kNaN, kNaN, kNaN, 4}, MissingPolicy::kInterpolate, {3}),
              ElementsAre(0, 0, 0, 3, 4));
  // A border right after the gap: the value after belongs to the next part.
  EXPECT_THAT(filled({0, kNaN, kNaN, 3}, MissingPolicy::kInterpolate, {3}),
              ElementsAre(0, 0, 0, 3));
  // A border before the gap changes nothing.
  EXPECT_THAT(filled({0, kNaN, kNaN, 3}, MissingPolicy::kInterpolate, {1}),
              ElementsAre(0, 1, 2, 3));
}

TEST(MissingValuesTest, StepsOverOtherColumns) {
  std::vector<float> values = {0, -1, kNaN, -1, 2, -1};
  EXPECT_TRUE(fill_column(values.data(), 3, 2, {}, MissingPolicy::kInterpolate));
  EXPECT_THAT(values, ElementsAre(0, -1, 1, -1, 2, -1));
}

TEST(MissingValuesTest, LeavesAColumnWithoutValues) {
  std::vector<float> values = {kNaN, kNaN};
  EXPECT_FALSE(fill_column(values.data(), 2, 1, {}, MissingPolicy::kInterpolate));
}

TEST(MissingValuesTest, CountsPerColumn) {
  const SeriesTable table = make_table({{{1, kNaN}, {2, kInfinity}}, {{kNaN, 3}}});
  const MissingMask mask = find_missing(table);
  EXPECT_THAT(mask.counts, ElementsAre(1, 2));
  EXPECT_TRUE(mask.at(2, 0));
  EXPECT_FALSE(mask.at(2, 1));
  EXPECT_FALSE(find_missing(make_table({{{1}}})).any());
  EXPECT_THAT(message_of<DataError>([&] { refuse_missing(table, mask); }),
              ::testing::HasSubstr("series '0', row 0, column 'b' is missing"));
}

}  // namespace
}  // namespace longship::data
