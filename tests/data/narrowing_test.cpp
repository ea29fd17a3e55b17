#include "data/narrowing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>

namespace longship::data {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// What is lost of 1000 values by row.
std::optional<LostChange> lost_of(const std::function<double(int64_t)>& value) {
  Narrowing narrowing;
  for (int64_t row = 0; row < 1000; ++row) narrowing.narrow(value(row), row);
  return narrowing.lost();
}

// White noise of a deviation around a level.
std::optional<LostChange> lost_of_noise(double level, double deviation) {
  std::mt19937_64 generator(7);
  std::normal_distribution<double> noise(level, deviation);
  return lost_of([&](int64_t) { return noise(generator); });
}

TEST(NarrowingTest, NoiseThatFloat32RoundsAwayIsLost) {
  EXPECT_TRUE(lost_of_noise(1e9, 0.01));
  EXPECT_TRUE(lost_of_noise(1e9, 30));  // a staircase: two float32 are 64 apart here
  EXPECT_FALSE(lost_of_noise(1e9, 100));
  EXPECT_FALSE(lost_of_noise(1e6, 1));
  EXPECT_TRUE(lost_of_noise(1e-50, 1e-51));
  EXPECT_FALSE(lost_of_noise(0, 1));
}

TEST(NarrowingTest, CountersAndStampsAreLostWhenTheirStepIs) {
  EXPECT_TRUE(lost_of([](int64_t row) { return 1.6e9 + static_cast<double>(row); }));
  EXPECT_TRUE(lost_of([](int64_t row) { return 1.6e9 + 60 * static_cast<double>(row); }));
  EXPECT_FALSE(lost_of([](int64_t row) { return 1.6e9 + 3600 * static_cast<double>(row); }));
  EXPECT_FALSE(lost_of([](int64_t row) { return 0.01 * static_cast<double>(row); }));
}

TEST(NarrowingTest, TheFirstLostChangeIsNamed) {
  // Missing and infinite values, and equal ones, are no changes.
  const auto lost = lost_of([](int64_t row) {
    if (row == 0) return kNaN;
    if (row == 3) return std::numeric_limits<double>::infinity();
    return row < 3 ? 1e9 : 1e9 + 0.25 * static_cast<double>(row);
  });
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->row_before, 1);
  EXPECT_EQ(lost->row, 4);
  EXPECT_EQ(lost->text(),
            "1000000000 and 1000000001, which are both 1000000000 in float32, and most of its "
            "variation is lost so");
}

TEST(NarrowingTest, WhatNoModelNeedsMayBeLost) {
  // A constant with the last bits of what computed it.
  EXPECT_FALSE(lost_of([](int64_t row) { return 0.1 * 3 + 1e-16 * static_cast<double>(row % 3); }));
  // Sunshine, whose nights a model of the weather fills with tiny numbers.
  EXPECT_FALSE(lost_of([](int64_t row) {
    const auto night = static_cast<double>(row % 24);
    return row % 24 < 18 ? 1e-50 * night : 100 * night;
  }));
  // Decay to a setpoint: most changes are tiny.
  EXPECT_FALSE(lost_of([](int64_t row) { return 20 + std::exp(-static_cast<double>(row % 500)); }));
}

TEST(NarrowingTest, FewChangesProveNothing) {
  Narrowing narrowing;
  for (int64_t row = 0; row <= 9; ++row) narrowing.narrow(1e9 + static_cast<double>(row), row);
  EXPECT_FALSE(narrowing.lost());  // nine changes
  narrowing.narrow(1e9 + 10, 10);
  EXPECT_TRUE(narrowing.lost());
}

TEST(NarrowingTest, NarrowsAsACastDoes) {
  Narrowing narrowing;
  EXPECT_EQ(narrowing.narrow(0.1, 0), 0.1f);
  EXPECT_TRUE(std::isnan(narrowing.narrow(kNaN, 1)));
  EXPECT_TRUE(std::isinf(narrowing.narrow(1e39, 2)));
}

}  // namespace
}  // namespace longship::data
