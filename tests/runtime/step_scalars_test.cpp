#include "runtime/step_scalars.h"

#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <gtest/gtest.h>
#include <torch/nn/utils/clip_grad.h>

#include <chrono>
#include <limits>
#include <thread>

#include "config_support.h"
#include "runtime/schedule.h"

namespace longship::runtime {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr int64_t kSteps = 10;

Config make_config(double clip_norm) {
  Config config;
  config.train.clip_norm = clip_norm;
  config.optimizer.lr = 0.5;
  config.schedule.name = "linear";
  config.schedule.warmup_steps = 2;
  return config;
}

// On each device, by the same code's two faces.
class StepScalarsTest : public testing::TestWithParam<c10::DeviceType> {
 protected:
  void SetUp() override {
    if (GetParam() == c10::kCUDA && !at::cuda::is_available()) GTEST_SKIP() << "there is no GPU";
  }
  c10::Device device() const { return {GetParam(), static_cast<c10::DeviceIndex>(0)}; }
  LossScaler scaler(double scale, int64_t interval = 2000,
                    PrecisionMode mode = PrecisionMode::kFp16) const {
    return {mode, scale, interval, device()};
  }
  at::Tensor on_device(const at::Tensor& tensor) const { return tensor.to(device()); }
};

std::string device_name(const testing::TestParamInfo<c10::DeviceType>& test) {
  return test.param == c10::kCUDA ? "Gpu" : "Cpu";
}
INSTANTIATE_TEST_SUITE_P(Device, StepScalarsTest, testing::Values(c10::kCPU, c10::kCUDA),
                         device_name);

float number(const at::Tensor& tensor) {
  return tensor.item<float>();
}
double column(const StepScalars& scalars, StepFinish::Column which) {
  return scalars.numbers()[which].item<double>();
}

TEST_P(StepScalarsTest, UnscalesAndClipsAsPyTorch) {
  // Sizes around the vector width, and one that takes many blocks.
  for (const int64_t elements : {1, 3, 4, 7, 1000, 3000003}) {
    at::manual_seed(1);
    const at::Tensor gradients = at::randn({elements}) * 3;
    for (const double clip_norm : {0.0, 0.25, 1e6}) {
      at::Tensor parameter = at::zeros({elements}, at::kDouble).requires_grad_();
      parameter.mutable_grad() = gradients.to(at::kDouble);
      const double norm =
          torch::nn::utils::clip_grad_norm_({parameter}, clip_norm > 0 ? clip_norm : 1e9);

      const LossScaler scale = scaler(1024);
      StepScalars scalars(make_config(clip_norm), kSteps, scale, device());
      scalars.finish(on_device(gradients * 1024));
      EXPECT_NEAR(column(scalars, StepFinish::kGradNorm), norm, 2e-6 * norm) << elements;
      const at::Tensor divided = gradients.to(at::kDouble) * 1024 /
                                 scalars.decision().divisor.to(at::kCPU).to(at::kDouble);
      EXPECT_TRUE(at::allclose(divided, parameter.grad(), 2e-6, 1e-9)) << elements;
      EXPECT_EQ(number(scalars.decision().found_inf), 0);
    }
  }
}

TEST_P(StepScalarsTest, FindsWhatIsNotFiniteWhereverItIs) {
  const LossScaler scale = scaler(1, 2000, PrecisionMode::kFp32);
  StepScalars scalars(make_config(1), kSteps, scale, device());
  constexpr int64_t kElements = 2000001;
  for (const float bad : {kInf, -kInf, kNan}) {
    for (const int64_t place : {int64_t{0}, int64_t{777777}, kElements - 1}) {
      at::Tensor gradients = at::ones({kElements});
      gradients[place] = bad;
      scalars.finish(on_device(gradients));
      EXPECT_EQ(number(scalars.decision().found_inf), 1) << bad << " at " << place;
      scalars.finish(on_device(at::ones({kElements})));
      EXPECT_EQ(number(scalars.decision().found_inf), 0);
    }
  }
  // Large, but finite: float64 holds the squares.
  scalars.finish(on_device(at::full({8}, 1e30F)));
  EXPECT_EQ(number(scalars.decision().found_inf), 0);
  EXPECT_NEAR(column(scalars, StepFinish::kGradNorm), std::sqrt(8.0) * 1e30, 1e24);
}

TEST_P(StepScalarsTest, EqualGradientsGiveEqualBits) {
  at::manual_seed(2);
  const at::Tensor gradients = on_device(at::randn({1234567}));
  const LossScaler scale = scaler(1);
  StepScalars scalars(make_config(0.1), kSteps, scale, device());
  scalars.finish(gradients);
  const double norm = column(scalars, StepFinish::kGradNorm);
  for (int i = 0; i < 50; ++i) {
    scalars.finish(gradients);
    EXPECT_EQ(column(scalars, StepFinish::kGradNorm), norm);
  }
}

TEST_P(StepScalarsTest, ASkippedStepCountsForNothing) {
  const Config config = make_config(0);
  const LossScaler scale = scaler(8);
  StepScalars scalars(config, kSteps, scale, device());
  const at::Tensor good = on_device(at::ones({4}));
  const at::Tensor bad = on_device(at::full({4}, kInf));
  const auto rate = [&](int64_t applied) {
    return static_cast<float>(learning_rate(config.optimizer, config.schedule, applied, kSteps));
  };
  int64_t applied = 0;
  int64_t skips = 0;
  for (const bool overflows : {false, true, true, false, false}) {
    scalars.finish(overflows ? bad : good);
    EXPECT_EQ(number(scalars.decision().lr), rate(applied));
    EXPECT_EQ(number(scalars.decision().step_number), static_cast<float>(applied + 1));
    applied += overflows ? 0 : 1;
    skips = overflows ? skips + 1 : 0;
    EXPECT_EQ(scalars.applied(), applied);
    EXPECT_EQ(column(scalars, StepFinish::kApplied), static_cast<double>(applied));
    EXPECT_EQ(column(scalars, StepFinish::kSkipped), overflows ? 1 : 0);
    EXPECT_EQ(column(scalars, StepFinish::kConsecutiveSkips), static_cast<double>(skips));
  }
  // Beyond the end of the schedule its last rate holds.
  scalars.set_applied(1000);
  scalars.finish(good);
  EXPECT_EQ(number(scalars.decision().lr), rate(kSteps));
}

TEST_P(StepScalarsTest, TheLossScaleHalvesOnOverflowAndGrowsAfterGoodSteps) {
  const LossScaler scale = scaler(1024, 3);
  StepScalars scalars(make_config(0), kSteps, scale, device());
  const auto step = [&](float value) { scalars.finish(on_device(at::full({5}, value))); };
  step(kInf);
  EXPECT_EQ(number(scale.scale()), 512);
  EXPECT_EQ(column(scalars, StepFinish::kLossScale), 1024);  // that the step used
  step(1);
  step(1);
  EXPECT_EQ(number(scale.scale()), 512);
  EXPECT_EQ(scale.state().growth_tracker, 2);
  step(1);
  EXPECT_EQ(number(scale.scale()), 1024);
  // An overflow starts the count of good steps anew.
  step(1);
  step(1);
  step(kInf);
  EXPECT_EQ(scale.state().growth_tracker, 0);
  step(1);
  step(1);
  EXPECT_EQ(number(scale.scale()), 512);
}

TEST_P(StepScalarsTest, TheLossScaleStopsAtItsFloorAndAtTheTypesEnd) {
  const LossScaler low = scaler(4 * LossScaler::kFloor);
  StepScalars scalars(make_config(0), kSteps, low, device());
  for (int i = 0; i < 5; ++i) scalars.finish(on_device(at::full({1}, kInf)));
  EXPECT_EQ(low.state().scale, LossScaler::kFloor);

  const LossScaler high = scaler(std::ldexp(1.0, 127), 1);
  StepScalars others(make_config(0), kSteps, high, device());
  others.finish(on_device(at::ones({1})));
  EXPECT_EQ(high.state().scale, std::ldexp(1.0, 127));
}

TEST_P(StepScalarsTest, WithoutALossScaleOverflowIsFoundAllTheSame) {
  const LossScaler one = scaler(65536, 1, PrecisionMode::kBf16);
  StepScalars scalars(make_config(0), kSteps, one, device());
  scalars.finish(on_device(at::ones({3})));
  EXPECT_EQ(number(scalars.decision().divisor), 1);
  scalars.finish(on_device(at::full({3}, kNan)));
  EXPECT_EQ(number(scalars.decision().found_inf), 1);
  EXPECT_EQ(number(one.scale()), 1);
}

TEST_P(StepScalarsTest, CountsTheTimeOfTheWait) {
  const LossScaler one = scaler(1);
  StepScalars scalars(make_config(0), kSteps, one, device());
  scalars.loss_sum().fill_(0.75);
  scalars.wait_begins();
  if (device().is_cuda()) at::cuda::getCurrentCUDAStream().synchronize();
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  scalars.wait_ends();
  scalars.finish(on_device(at::ones({1})));
  EXPECT_GE(column(scalars, StepFinish::kExposedCommMs), 4.9);
  EXPECT_EQ(column(scalars, StepFinish::kLoss), 0.75);
}

}  // namespace
}  // namespace longship::runtime
