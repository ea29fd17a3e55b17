#include "runtime/schedule.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "torch_reference.h"

namespace longship::runtime {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;

Config::Optimizer with_lr(double lr) {
  Config::Optimizer optimizer;
  optimizer.lr = lr;
  return optimizer;
}

Config::Schedule schedule(const std::string& name, int64_t warmup_steps = 0) {
  Config::Schedule config;
  config.name = name;
  config.warmup_steps = warmup_steps;
  config.min_lr = name == "cosine" || name == "linear" ? 0.04 : 0;
  config.step_size = 7;
  config.gamma = 0.3;
  return config;
}

std::vector<double> rates(const Config::Schedule& config, int64_t total_steps) {
  std::vector<double> all;
  for (int64_t step = 0; step < total_steps; ++step) {
    all.push_back(learning_rate(with_lr(0.4), config, step, total_steps));
  }
  return all;
}

TEST(Schedule, IsThatOfPyTorch) {
  for (const std::string name : {"constant", "cosine", "linear", "step"}) {
    const at::Tensor ours = at::tensor(rates(schedule(name), tests::kReferenceSteps), at::kDouble);
    EXPECT_TRUE(at::allclose(ours, tests::torch_reference().at("schedule/" + name), 1e-6, 1e-9))
        << name << '\n'
        << ours;
  }
}

TEST(Schedule, WarmsUpToTheFullRateAndThenStarts) {
  for (const std::string name : {"constant", "cosine", "linear", "step"}) {
    const std::vector<double> all = rates(schedule(name, 4), 24);
    EXPECT_DOUBLE_EQ(all[0], 0.1);
    EXPECT_DOUBLE_EQ(all[2], 0.3);
    EXPECT_DOUBLE_EQ(all[3], 0.4);
    // After the warm-up comes the course of a run without it.
    const std::vector<double> without = rates(schedule(name), 20);
    for (size_t i = 0; i < without.size(); ++i) EXPECT_DOUBLE_EQ(all[i + 4], without[i]) << name;
  }
}

TEST(Schedule, ByHand) {
  const auto near = [](double value) { return DoubleNear(value, 1e-12); };
  EXPECT_THAT(rates(schedule("linear"), 4),
              ElementsAre(near(0.4), near(0.28), near(0.16), near(0.04)));
  EXPECT_THAT(rates(schedule("cosine"), 3), ElementsAre(near(0.4), near(0.22), near(0.04)));
  Config::Schedule floored = schedule("step");
  floored.step_size = 1;
  floored.min_lr = 0.1;
  EXPECT_THAT(rates(floored, 3), ElementsAre(near(0.4), near(0.12), near(0.1)));
}

TEST(Schedule, HoldsForRunsOfOneStepAndForWarmUpsLongerThanTheRun) {
  for (const std::string name : {"constant", "cosine", "linear", "step"}) {
    EXPECT_DOUBLE_EQ(rates(schedule(name), 1)[0], 0.4) << name;
    EXPECT_DOUBLE_EQ(rates(schedule(name, 10), 5)[4], 0.2) << name;
  }
}

TEST(Schedule, TheTableHoldsEveryStepAndTheOneAfterTheLast) {
  const Config::Schedule config = schedule("cosine", 2);
  const at::Tensor table = learning_rate_table(with_lr(0.4), config, 10, c10::kCPU);
  EXPECT_EQ(table.scalar_type(), at::kFloat);
  ASSERT_EQ(table.numel(), 11);
  const std::vector<double> all = rates(config, 10);
  for (int64_t i = 0; i < 10; ++i) {
    EXPECT_FLOAT_EQ(table[i].item<float>(), static_cast<float>(all[static_cast<size_t>(i)]));
  }
  EXPECT_FLOAT_EQ(table[10].item<float>(), 0.04f);
}

}  // namespace
}  // namespace longship::runtime
