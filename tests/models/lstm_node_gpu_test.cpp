#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/lstm_node.h"
#include "test_models.h"

namespace longship::models {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Autocast {
 public:
  explicit Autocast(at::ScalarType type) {
    at::autocast::set_autocast_dtype(at::kCUDA, type);
    at::autocast::set_autocast_enabled(at::kCUDA, true);
  }
  ~Autocast() {
    at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(at::kCUDA, false);
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;
};

// The forecaster with own kernels, beside the same one with cuDNN's and beside float32.
class LstmNodeGpu : public testing::Test {
 protected:
  void SetUp() override {
    const std::string obstacle = lstm_kernels_obstacle({at::kHalf, 8, 1, 8, 64, 1}, 0);
    if (!obstacle.empty()) GTEST_SKIP() << obstacle;
  }
  static std::shared_ptr<Forecaster> lstm(const char* kernels,
                                          std::map<std::string, OptionValue> changed = {}) {
    changed.emplace("hidden_size", int64_t{128});
    changed.emplace("num_layers", int64_t{2});
    changed["kernels"] = std::string(kernels);
    const auto model = make_model("lstm", {.inputs = 5, .window = 24, .horizon = 3, .targets = 2},
                                  std::move(changed));
    model->to(at::kCUDA);
    model->on_device();
    return model;
  }
  // Forecast, gradient of the input, gradients of the parameters.
  static std::vector<at::Tensor> numbers(Forecaster& model, const at::Tensor& past,
                                         std::optional<at::ScalarType> type) {
    const at::Tensor x = past.detach().clone().requires_grad_();
    at::Tensor forecast;
    {
      std::optional<Autocast> autocast;
      if (type) autocast.emplace(*type);
      forecast = run(model, x);
    }
    forecast.to(at::kFloat).square().sum().backward();
    std::vector<at::Tensor> found = {forecast.detach().to(at::kFloat), x.grad()};
    for (const at::Tensor& parameter : model.parameters()) {
      EXPECT_EQ(parameter.grad().scalar_type(), at::kFloat);
      found.push_back(parameter.grad());
    }
    return found;
  }
};

TEST_F(LstmNodeGpu, ForecastsAndGradientsAreAsNearToFloat32AsCudnns) {
  for (const at::ScalarType type : {at::kHalf, at::kBFloat16}) {
    for (const int64_t batch : {1, 7, 300}) {
      const at::Tensor past = at::randn({batch, 24, 5}, at::kCUDA);
      const auto own = lstm("own");
      const auto exact = numbers(*lstm("cudnn"), past, std::nullopt);
      const auto ours = numbers(*own, past, type);
      const auto cudnn = numbers(*lstm("cudnn"), past, type);
      EXPECT_THAT(own->report(), ElementsAre(HasSubstr("by own kernels")));
      ASSERT_EQ(ours.size(), exact.size());
      for (size_t i = 0; i < exact.size(); ++i) {
        const auto error = [&](const at::Tensor& found) {
          return ((found - exact[i]).norm() / exact[i].norm()).item<double>();
        };
        // How near the kernels themselves are stands in lstm_kernels_gpu_test.cpp.
        const double rounding = type == at::kHalf ? 0x1p-11 : 0x1p-8;
        EXPECT_LE(error(ours[i]), 2.5 * std::max(error(cudnn[i]), rounding))
            << type << " batch " << batch << " number " << i;
      }
    }
  }
}

TEST_F(LstmNodeGpu, EvaluationGivesWhatTrainingGives) {
  const auto model = lstm("own");
  const at::Tensor past = at::randn({32, 24, 5}, at::kCUDA);
  const Autocast autocast(at::kHalf);
  const at::Tensor trained = run(*model, past).detach();
  model->eval();
  const at::NoGradGuard no_grad;
  EXPECT_TRUE(at::equal(run(*model, past), trained));
}

TEST_F(LstmNodeGpu, WhatTheyCannotIsComputedWithoutThemAndToldWhy) {
  const at::Tensor past = at::randn({4, 24, 5}, at::kCUDA);
  const auto expect_told = [&](std::map<std::string, OptionValue> changed, at::ScalarType type,
                               const char* why) {
    const auto own = lstm("own", changed);
    const auto cudnn = lstm("cudnn", changed);
    std::optional<Autocast> autocast;
    if (type != at::kFloat) autocast.emplace(type);
    EXPECT_TRUE(at::equal(run(*own, past), run(*cudnn, past))) << why;
    EXPECT_THAT(own->report(), ElementsAre(HasSubstr(why)));
    EXPECT_THAT(cudnn->report(), ElementsAre());
  };
  expect_told({{"hidden_size", int64_t{96}}}, at::kHalf, "not 96");
  expect_told({{"dropout", 0.25}}, at::kHalf, "no dropout between layers");
  expect_told({}, at::kFloat, "fp16 and bf16");
}

}  // namespace
}  // namespace longship::models
