#include "runtime/step_statistics.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace longship::runtime {
namespace {

at::Tensor numbers(double loss) {
  return at::tensor({loss, 2.0, 1.0, 1024.0, 0.001, 7.0, 3.0, 0.25}, at::kDouble);
}

TEST(StatisticsPipe, GivesAStepOnceTwoMoreAreUnderWay) {
  StatisticsPipe pipe(c10::kCPU, std::chrono::seconds(60));
  EXPECT_FALSE(pipe.pop(false));
  EXPECT_FALSE(pipe.pop(true));
  for (int64_t step = 1; step <= 2; ++step) {
    pipe.push(step, numbers(static_cast<double>(step)));
    EXPECT_FALSE(pipe.pop(false)) << step;
  }
  pipe.push(3, numbers(3));
  const auto first = pipe.pop(false);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->step, 1);
  EXPECT_EQ(first->loss, 1);
  EXPECT_FALSE(pipe.pop(false));
}

TEST(StatisticsPipe, EmptiesItselfInOrderWhenAsked) {
  StatisticsPipe pipe(c10::kCPU, std::chrono::seconds(60));
  for (int64_t step = 1; step <= 3; ++step) pipe.push(step, numbers(10.0 * step));
  for (int64_t step = 1; step <= 3; ++step) {
    const auto statistics = pipe.pop(true);
    ASSERT_TRUE(statistics);
    EXPECT_EQ(statistics->step, step);
    EXPECT_EQ(statistics->loss, 10.0 * step);
  }
  EXPECT_FALSE(pipe.pop(true));
}

TEST(StatisticsPipe, KeepsWhatWasPushedThoughTheTensorChanges) {
  StatisticsPipe pipe(c10::kCPU, std::chrono::seconds(60));
  const at::Tensor tensor = numbers(0.5);
  pipe.push(4, tensor);
  tensor.zero_();
  const auto statistics = pipe.pop(true);
  ASSERT_TRUE(statistics);
  EXPECT_EQ(statistics->loss, 0.5);
  EXPECT_EQ(statistics->grad_norm, 2);
  EXPECT_TRUE(statistics->skipped);
  EXPECT_EQ(statistics->loss_scale, 1024);
  EXPECT_EQ(statistics->lr, 0.001);
  EXPECT_EQ(statistics->applied, 7);
  EXPECT_EQ(statistics->consecutive_skips, 3);
  EXPECT_EQ(statistics->exposed_comm_ms, 0.25);
}

}  // namespace
}  // namespace longship::runtime
