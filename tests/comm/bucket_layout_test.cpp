#include "comm/bucket_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace longship::comm {
namespace {

using testing::ElementsAre;

TEST(BucketLayout, FillsInReverseOrderWithASmallFirstBucket) {
  // Limits: 8 elements first, then 20.
  const auto layout = make_bucket_layout({12, 4, 8, 8, 4}, 32, 80);
  ASSERT_EQ(layout.size(), 3U);
  EXPECT_THAT(layout[0].parameters, ElementsAre(4));
  EXPECT_THAT(layout[1].parameters, ElementsAre(3, 2, 1));
  EXPECT_THAT(layout[1].offsets, ElementsAre(0, 8, 16));
  EXPECT_EQ(layout[1].elements, 20);
  EXPECT_THAT(layout[2].parameters, ElementsAre(0));
  EXPECT_EQ(layout[2].elements, 12);
}

TEST(BucketLayout, NeverSplitsAParameter) {
  const auto layout = make_bucket_layout({4, 1000, 4}, 16, 64);
  ASSERT_EQ(layout.size(), 3U);
  EXPECT_EQ(layout[1].elements, 1000);
  EXPECT_THAT(layout[1].parameters, ElementsAre(1));
}

TEST(BucketLayout, AlignsViewsTo16Bytes) {
  const auto layout = make_bucket_layout({3, 1, 5}, 1000, 1000);
  ASSERT_EQ(layout.size(), 1U);
  EXPECT_THAT(layout[0].parameters, ElementsAre(2, 1, 0));
  EXPECT_THAT(layout[0].offsets, ElementsAre(0, 8, 12));
  EXPECT_EQ(layout[0].elements, 16);
}

TEST(BucketLayout, FollowsTheOrderOfBackward) {
  const auto layout = make_bucket_layout({4, 8, 4}, 32, 64, {1, 2, 0});
  ASSERT_EQ(layout.size(), 2U);
  EXPECT_THAT(layout[0].parameters, ElementsAre(1));
  EXPECT_THAT(layout[1].parameters, ElementsAre(2, 0));
}

TEST(BucketLayout, KnowsTheLayoutsOfAModel) {
  const std::vector<int64_t> counts = {3, 1, 5, 40};
  for (const int64_t limit : {16, 64, 1000}) {
    EXPECT_TRUE(is_layout_of(make_bucket_layout(counts, limit, limit), counts));
  }
  const auto layout = make_bucket_layout(counts, 1000, 1000);
  EXPECT_FALSE(is_layout_of(layout, {3, 1, 5}));
  EXPECT_FALSE(is_layout_of(layout, {3, 1, 5, 40, 2}));
  EXPECT_FALSE(is_layout_of(layout, {3, 1, 5, 44}));
  auto twice = layout;
  twice[0].parameters[1] = twice[0].parameters[0];
  EXPECT_FALSE(is_layout_of(twice, counts));
  auto moved = layout;
  moved[0].offsets[2] += 4;
  EXPECT_FALSE(is_layout_of(moved, counts));
  EXPECT_FALSE(is_layout_of({}, counts));
}

}  // namespace
}  // namespace longship::comm
