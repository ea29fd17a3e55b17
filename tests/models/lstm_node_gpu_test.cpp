#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <cmath>
#include <memory>

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
                                          std::map<std::string, OptionValue> changed = {},
                                          uint64_t seed = 1) {
    changed.emplace("hidden_size", int64_t{128});
    changed.emplace("num_layers", int64_t{2});
    changed["kernels"] = std::string(kernels);
    const auto model = make_model("lstm", {.inputs = 5, .window = 24, .horizon = 3, .targets = 2},
                                  std::move(changed), seed);
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
  // One draw of weights and samples tells little: a gradient of few samples inherits the rounding
  // of a few forecasts, which is as often in cuDNN's favour as in ours. Hence errors of many draws.
  static void expect_as_near_as_cudnn(const std::map<std::string, OptionValue>& changed,
                                      int64_t batch, at::ScalarType type) {
    constexpr uint64_t kDraws = 24;
    std::vector<double> our_squares;
    std::vector<double> cudnn_squares;
    for (uint64_t draw = 0; draw < kDraws; ++draw) {
      at::manual_seed(draw);
      const at::Tensor past = at::randn({batch, 24, 5}, at::kCUDA);
      const auto exact = numbers(*lstm("cudnn", changed, draw), past, std::nullopt);
      const auto cudnn = numbers(*lstm("cudnn", changed, draw), past, type);
      const auto own = lstm("own", changed, draw);
      const auto ours = numbers(*own, past, type);
      EXPECT_THAT(own->report(), ElementsAre(HasSubstr("by own kernels")));
      ASSERT_EQ(ours.size(), exact.size());
      our_squares.resize(exact.size());
      cudnn_squares.resize(exact.size());
      for (size_t i = 0; i < exact.size(); ++i) {
        const auto square = [&](const at::Tensor& value) {
          return ((value - exact[i]).square().sum() / exact[i].square().sum()).item<double>();
        };
        our_squares[i] += square(ours[i]);
        cudnn_squares[i] += square(cudnn[i]);
      }
    }
    for (size_t i = 0; i < our_squares.size(); ++i) {
      EXPECT_LE(std::sqrt(our_squares[i]), 1.5 * std::sqrt(cudnn_squares[i]))
          << type << " batch " << batch << " number " << i;
    }
  }
};

TEST_F(LstmNodeGpu, ForecastsAndGradientsAreAsNearToFloat32AsCudnns) {
  for (const at::ScalarType type : {at::kHalf, at::kBFloat16}) {
    for (const int64_t batch : {1, 7, 300}) expect_as_near_as_cudnn({}, batch, type);
  }
}

// BF16 trains without a loss scale, so gradients far below what FP16 holds must come through.
TEST_F(LstmNodeGpu, SmallGradientsComeThroughInBfloat16) {
  constexpr double kSmall = 0x1p-30;  // exact to multiply with
  const at::Tensor past = at::randn({32, 24, 5}, at::kCUDA);
  for (const char* kernels : {"cudnn", "own"}) {
    for (const double dropout : {0.0, 0.3}) {
      const auto gradients = [&](double scale) {
        const auto model = lstm(kernels, {{"dropout", dropout}});
        {
          const Autocast autocast(at::kBFloat16);
          (run(*model, past).to(at::kFloat).square().sum() * scale).backward();
        }
        std::vector<at::Tensor> found;
        for (const at::Tensor& parameter : model->parameters()) {
          found.push_back(parameter.grad() / scale);
        }
        return found;
      };
      const std::vector<at::Tensor> small = gradients(kSmall);
      const std::vector<at::Tensor> whole = gradients(1.0);
      for (size_t i = 0; i < whole.size(); ++i) {
        const double error = ((small[i] - whole[i]).norm() / whole[i].norm()).item<double>();
        EXPECT_LT(error, 1e-3) << kernels << " dropout " << dropout << " parameter " << i;
      }
    }
  }
}

// Parameters whose hooks were called, in order, while a node adds to .grad itself.
class CalledHooks {
 public:
  explicit CalledHooks(const std::vector<at::Tensor>& parameters) {
    for (size_t i = 0; i < parameters.size(); ++i) {
      torch::autograd::impl::set_post_acc_grad_hooks(parameters[i],
                                                     std::make_unique<Hook>(*this, i));
    }
  }
  std::vector<size_t> order;

 private:
  struct Hook final : torch::autograd::PostAccumulateGradHook {
    Hook(CalledHooks& all, size_t parameter) : called(all), index(parameter) {}
    void operator()(const at::Tensor& parameter) override {
      EXPECT_GT(parameter.grad().norm().item<double>(), 0) << index;
      called.order.push_back(index);
    }
    CalledHooks& called;
    size_t index;
  };
};

TEST_F(LstmNodeGpu, GradientsAreAddedInPlaceFromTheLastLayerToTheFirst) {
  const auto model = lstm("own");
  const std::vector<at::Tensor> parameters = model->parameters();
  const at::Tensor past = at::randn({32, 24, 5}, at::kCUDA);
  const auto loss = [&] {
    const Autocast autocast(at::kHalf);
    return run(*model, past).to(at::kFloat).square().sum();
  };
  // Handed over at the node's end, as there is nothing to add to.
  const auto returned = torch::autograd::grad({loss()}, parameters);
  loss().backward();
  std::vector<at::Tensor> once;
  for (size_t i = 0; i < parameters.size(); ++i) {
    once.push_back(parameters[i].grad().clone());
    EXPECT_TRUE(at::equal(once[i], returned[i])) << i;
    EXPECT_TRUE(parameters[i].grad().is_contiguous());
  }
  const CalledHooks called(parameters);
  loss().backward();
  // The head's two, then four of each layer.
  EXPECT_THAT(called.order, ElementsAre(8, 9, 4, 5, 6, 7, 0, 1, 2, 3));
  for (size_t i = 0; i < parameters.size(); ++i) {
    const double error =
        ((parameters[i].grad() - 2 * once[i]).norm() / once[i].norm()).item<double>();
    EXPECT_LT(error, 1e-6) << i;
  }
  // Nor does .grad change where gradients are asked for.
  const auto again = torch::autograd::grad({loss()}, parameters);
  for (size_t i = 0; i < parameters.size(); ++i) EXPECT_TRUE(at::equal(again[i], once[i])) << i;
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

// Masks follow from the key alone, so that both drop the same values.
TEST_F(LstmNodeGpu, WithDropoutBetweenLayersTheyAreAsNearToFloat32AsCudnn) {
  const std::map<std::string, OptionValue> dropout{{"dropout", 0.3}, {"num_layers", int64_t{3}}};
  for (const at::ScalarType type : {at::kHalf, at::kBFloat16}) {
    expect_as_near_as_cudnn(dropout, 40, type);
  }
  const auto own = lstm("own", dropout);
  const at::Tensor past = at::randn({40, 24, 5}, at::kCUDA);
  const Autocast autocast(at::kHalf);
  const at::Tensor forecast = run(*own, past);
  EXPECT_THAT(own->report(), ElementsAre(HasSubstr("by own kernels")));
  EXPECT_TRUE(at::equal(forecast, run(*own, past)));
  own->eval();
  EXPECT_FALSE(at::equal(forecast, run(*own, past)));
}

TEST_F(LstmNodeGpu, LeftToChooseTheyAreOfferedAndComputeWhenChosen) {
  const auto automatic = lstm("auto");
  Inputs inputs;
  inputs.past = at::randn({32, 24, 5}, at::kCUDA);
  EXPECT_THAT(automatic->implementations(inputs), ElementsAre()) << "in float32";
  const Autocast autocast(at::kHalf);
  EXPECT_THAT(automatic->implementations(inputs), ElementsAre("cudnn", "own"));
  EXPECT_THAT(lstm("own")->implementations(inputs), ElementsAre());
  const at::NoGradGuard no_grad;
  const at::Tensor of_own = run(*lstm("own"), inputs.past);
  const at::Tensor of_cudnn = run(*lstm("cudnn"), inputs.past);
  EXPECT_TRUE(at::equal(run(*automatic, inputs.past), of_cudnn))
      << "the first one without a choice";
  automatic->use_implementation("own");
  EXPECT_TRUE(at::equal(run(*automatic, inputs.past), of_own));
  EXPECT_FALSE(at::equal(of_own, of_cudnn));
  automatic->use_implementation("cudnn");
  EXPECT_TRUE(at::equal(run(*automatic, inputs.past), of_cudnn));
  EXPECT_THAT(automatic->report(), ElementsAre());
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
  expect_told({}, at::kFloat, "fp16 and bf16");
  const auto automatic = lstm("auto");
  run(*automatic, past);
  EXPECT_THAT(automatic->report(),
              ElementsAre(AllOf(HasSubstr("model.kernels auto: "), HasSubstr("fp16 and bf16"))));
}

}  // namespace
}  // namespace longship::models
