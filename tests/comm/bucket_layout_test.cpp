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

}  // namespace
}  // namespace longship::comm
