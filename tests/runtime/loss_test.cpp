#include "runtime/loss.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "torch_reference.h"

namespace longship::runtime {
namespace {

using testing::ElementsAre;

Config::Train train(const std::string& loss, std::vector<double> quantiles = {}) {
  Config::Train config;
  config.loss = loss;
  config.huber_delta = 0.7;
  config.quantiles = std::move(quantiles);
  return config;
}

TEST(Loss, OfEachSampleIsThatOfPyTorch) {
  const tests::Tensors given = tests::reference_input();
  for (const std::string name : {"mse", "mae", "huber"}) {
    const at::Tensor loss =
        make_loss(train(name), c10::kCPU)(given.at("forecast").unsqueeze(-1), given.at("target"));
    EXPECT_THAT(loss.sizes(), ElementsAre(5));
    EXPECT_TRUE(at::allclose(loss, tests::torch_reference().at("loss/" + name), 1e-6, 1e-7))
        << name;
  }
}

TEST(Loss, OfQuantilesIsThePinballLoss) {
  const SampleLoss loss = make_loss(train("quantile", {0.1, 0.5, 0.9}), c10::kCPU);
  // Errors 3 - 1, 3 - 2 and 3 - 5: 0.1 * 2, 0.5 * 1 and (1 - 0.9) * 2.
  const at::Tensor forecast = at::tensor({1.0f, 2.0f, 5.0f}).view({1, 1, 1, 3});
  const at::Tensor target = at::full({1, 1, 1}, 3.0f);
  EXPECT_NEAR(loss(forecast, target).item<float>(), (0.2 + 0.5 + 0.2) / 3, 1e-6);
  // The other way round each costs the complement: 0.9 * 2, 0.5 * 1 and 0.9 * 2.
  EXPECT_NEAR(loss(6 - forecast, target).item<float>(), (1.8 + 0.5 + 1.8) / 3, 1e-6);
}

TEST(Loss, IsFloat32WhateverTheForecastIs) {
  for (const std::string name : {"mse", "mae", "huber"}) {
    const at::Tensor forecast = at::full({2, 1, 1, 1}, 300.0f, at::kHalf);
    const at::Tensor loss = make_loss(train(name), c10::kCPU)(forecast, at::zeros({2, 1, 1}));
    EXPECT_EQ(loss.scalar_type(), at::kFloat);
    // 300^2 would be infinite in FP16.
    EXPECT_TRUE(loss.isfinite().all().item<bool>()) << name;
  }
}

TEST(Loss, TellsOutputsAndThePointForecast) {
  EXPECT_EQ(outputs_of(train("mse")), 1);
  EXPECT_EQ(point_output(train("mse")), 0);
  EXPECT_EQ(outputs_of(train("quantile", {0.1, 0.5, 0.9})), 3);
  EXPECT_EQ(point_output(train("quantile", {0.1, 0.5, 0.9})), 1);
  EXPECT_EQ(point_output(train("quantile", {0.05, 0.2, 0.9})), 1);
  EXPECT_EQ(point_output(train("quantile", {0.4, 0.9})), 0);
}

}  // namespace
}  // namespace longship::runtime
