#include "data/window_index.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace longship::data {
namespace {

TEST(WindowIndexTest, NumbersWindowsBySeriesThenRow) {
  WindowIndex index;
  index.add(0, 5, 4, 1);  // none
  index.add(1, 10, 16, 3);
  index.add(1, 30, 30, 3);
  index.add(4, 0, 1, 1);
  ASSERT_EQ(index.size(), 6);
  const int64_t expected[][2] = {{1, 10}, {1, 13}, {1, 16}, {1, 30}, {4, 0}, {4, 1}};
  for (int64_t window = 0; window < 6; ++window) {
    EXPECT_EQ(index.at(window).series, expected[window][0]);
    EXPECT_EQ(index.at(window).row, expected[window][1]);
  }
  EXPECT_THROW(index.at(6), std::out_of_range);
  EXPECT_THROW(index.at(-1), std::out_of_range);
}

}  // namespace
}  // namespace longship::data
