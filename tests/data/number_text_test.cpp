#include "data/number_text.h"

#include <gtest/gtest.h>

namespace longship::data {
namespace {

TEST(NumberTextTest, IsTheShortestThatReadsBack) {
  EXPECT_EQ(number_text(1e300), "1e+300");
  EXPECT_EQ(number_text(-2.2250738585072014e-308), "-2.2250738585072014e-308");
  EXPECT_EQ(number_text(1e9 + 0.01), "1000000000.01");
  EXPECT_EQ(number_text(0.1), "0.1");
  EXPECT_EQ(number_text(-3), "-3");
  EXPECT_EQ(number_text(0), "0");
  EXPECT_EQ(number_text(9999999999999998), "9999999999999998");
  EXPECT_EQ(number_text(1e16), "1e+16");
  EXPECT_EQ(number_text(0.00012345678901234567), "0.00012345678901234567");
  EXPECT_EQ(number_text(1.25e-5), "1.25e-05");
}

}  // namespace
}  // namespace longship::data
