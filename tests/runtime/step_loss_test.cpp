#include "runtime/step_loss.h"

#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <limits>

#include "runtime/loss.h"

namespace longship::runtime {
namespace {

class StepLossGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (!at::cuda::is_available()) GTEST_SKIP() << "there is no GPU";
    at::manual_seed(11);
  }
  static Config::Train train(const std::string& loss) {
    Config::Train config;
    config.loss = loss;
    config.huber_delta = 0.7;
    if (loss == "quantile") config.quantiles = {0.1, 0.5, 0.9};
    return config;
  }
  struct Case {
    at::Tensor forecast, target, weight, samples, scale;

    Case(at::ScalarType type, int64_t batch, int64_t horizon, int64_t targets, int64_t outputs)
        : forecast(at::randn({batch, horizon, targets, outputs}, at::kCUDA).to(type)),
          target(at::randn({batch, horizon, targets}, at::kCUDA)),
          weight(at::ones({batch}, at::kCUDA)),
          samples(at::full({}, 3 * batch, at::TensorOptions().device(at::kCUDA).dtype(at::kLong))),
          scale(at::full({}, 1024.0, at::kCUDA)) {
      weight[batch - 1].zero_();
      // What lies on the kinks.
      forecast.view({-1})[0] = target.view({-1})[0].to(type).item<float>();
    }
  };
};

TEST_F(StepLossGpu, IsWhatAutogradMakesOfTheLoss) {
  const c10::Device gpu(at::kCUDA, 0);
  for (const std::string loss : {"mse", "mae", "huber", "quantile"}) {
    StepLoss fused(train(loss), gpu);
    const SampleLoss by_sample = make_loss(train(loss), gpu);
    const int64_t outputs = outputs_of(train(loss));
    for (const at::ScalarType type : {at::kFloat, at::kHalf, at::kBFloat16}) {
      for (const auto& [batch, horizon, targets] :
           std::vector<std::tuple<int64_t, int64_t, int64_t>>{
               {1, 1, 1}, {256, 1, 1}, {37, 5, 3}, {64, 96, 70}}) {
        const Case c(type, batch, horizon, targets, outputs);
        const std::string name = loss + ' ' + at::toString(type) + ' ' + std::to_string(batch);
        const at::Tensor sum = at::full({}, 0.25, at::kCUDA);
        const at::Tensor gradient =
            fused.gradient(c.forecast, c.target, c.weight, c.samples, c.scale, sum);
        EXPECT_EQ(gradient.scalar_type(), type);
        ASSERT_EQ(gradient.sizes(), c.forecast.sizes());

        const at::AutoGradMode grad(true);
        const at::Tensor leaf = c.forecast.clone().requires_grad_();
        const at::Tensor expected = (by_sample(leaf, c.target) * c.weight).sum() / c.samples;
        const at::Tensor slope = torch::autograd::grad({expected * c.scale}, {leaf})[0];
        EXPECT_NEAR(sum.item<double>(), 0.25 + expected.item<double>(), 1e-6) << name;
        // A rounding or two of the type.
        const double rounding = type == at::kFloat ? 1e-6 : (type == at::kHalf ? 1e-3 : 8e-3);
        EXPECT_TRUE(at::allclose(gradient.to(at::kFloat), slope.to(at::kFloat), rounding, 1e-7))
            << name;
        EXPECT_EQ(gradient[batch - 1].abs().max().item<double>(), 0) << "padding";

        const at::Tensor again = at::full({}, 0.25, at::kCUDA);
        EXPECT_TRUE(at::equal(
            fused.gradient(c.forecast, c.target, c.weight, c.samples, c.scale, again), gradient));
        EXPECT_TRUE(at::equal(again, sum)) << name;
      }
    }
  }
}

TEST_F(StepLossGpu, WhatIsNotFiniteShows) {
  for (const std::string loss : {"mse", "mae", "huber", "quantile"}) {
    StepLoss fused(train(loss), c10::Device(at::kCUDA, 0));
    Case c(at::kFloat, 8, 2, 1, outputs_of(train(loss)));
    c.forecast[3] = std::numeric_limits<float>::quiet_NaN();
    const at::Tensor sum = at::zeros({}, at::kCUDA);
    const at::Tensor gradient =
        fused.gradient(c.forecast, c.target, c.weight, c.samples, c.scale, sum);
    EXPECT_TRUE(at::isnan(sum).item<bool>()) << loss;
    EXPECT_TRUE(at::isnan(gradient[3]).all().item<bool>()) << loss;
    EXPECT_FALSE(at::isnan(gradient[2]).any().item<bool>()) << loss;
  }
}

}  // namespace
}  // namespace longship::runtime
