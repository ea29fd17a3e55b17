#include "runtime/bucket_choice.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <algorithm>

#include "comm/local_communicator.h"
#include "rank_group.h"
#include "runtime/error.h"

namespace longship::runtime {
namespace {

constexpr double kMib = 1 << 20;

TEST(BucketBytes, AreSixteenLatenciesOfTransfer) {
  // 16 * 100 us * 5 GB/s = 8 MB: 4 MiB is the power of two below 7.6 MiB.
  EXPECT_EQ(bucket_bytes_for({100e-6, 5e9}, 4), 4 * kMib);
  // On a wire of half the bytes a bucket may hold twice the gradients.
  EXPECT_EQ(bucket_bytes_for({100e-6, 5e9}, 2), 8 * kMib);
  EXPECT_EQ(bucket_bytes_for({1e-6, 1e8}, 4), 1 * kMib);
  EXPECT_EQ(bucket_bytes_for({1e-3, 1e12}, 4), 64 * kMib);
}

TEST(MeasureCommunicator, GivesAllRanksTheSlowestOnesTimes) {
  const tests::Group group = comm::make_local_group(3);
  std::vector<CommunicatorSpeed> speeds(3);
  tests::play_ranks(3, [&](int rank) {
    comm::Communicator& communicator = tests::member(group, rank);
    speeds[static_cast<size_t>(rank)] = measure_communicator(communicator, communicator, c10::kCPU);
  });
  EXPECT_GT(speeds[0].latency_s, 0);
  EXPECT_GT(speeds[0].bytes_per_s, 0);
  for (const CommunicatorSpeed& speed : speeds) {
    EXPECT_EQ(speed.latency_s, speeds[0].latency_s);
    EXPECT_EQ(speed.bytes_per_s, speeds[0].bytes_per_s);
  }
}

// Uses its layers in another order than that of their registration, and one not at all.
class CrossedModel : public models::Forecaster {
 public:
  CrossedModel() {
    last_ = register_module("last", torch::nn::Linear(4, 2));
    unused_ = register_module("unused", torch::nn::Linear(1, 1));
    norm_ = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({4})));
    first_ = register_module("first", torch::nn::Linear(6, 4));
  }
  models::Forecast forward(const models::Inputs& inputs) override {
    const at::Tensor hidden = norm_->forward(first_->forward(inputs.past.flatten(1)));
    return {last_->forward(hidden).view({-1, 2, 1, 1})};
  }

 private:
  torch::nn::Linear last_{nullptr};
  torch::nn::Linear unused_{nullptr};
  torch::nn::LayerNorm norm_{nullptr};
  torch::nn::Linear first_{nullptr};
};

TEST(BackwardOrder, IsThatOfTheGradients) {
  CrossedModel model;
  const std::vector<int64_t> order =
      backward_order(model, {.inputs = 2, .window = 3, .horizon = 2, .targets = 1},
                     PrecisionMode::kFp32, c10::kCPU);
  ASSERT_EQ(order.size(), 8);
  // last (0, 1) before norm (4, 5) before first (6, 7); unused (3, 2) at the end.
  const auto place = [&](int64_t p) {
    return std::find(order.begin(), order.end(), p) - order.begin();
  };
  EXPECT_LT(std::max(place(0), place(1)), std::min(place(4), place(5)));
  EXPECT_LT(std::max(place(4), place(5)), std::min(place(6), place(7)));
  EXPECT_EQ(place(3), 6);
  EXPECT_EQ(place(2), 7);
}

TEST(BackwardOrder, LeavesNothingBehind) {
  CrossedModel model;
  backward_order(model, {.inputs = 2, .window = 3, .horizon = 2, .targets = 1},
                 PrecisionMode::kFp32, c10::kCPU);
  for (const at::Tensor& parameter : model.parameters()) {
    EXPECT_FALSE(parameter.grad().defined());
  }
}

// Keeps statistics of what it has seen, which ranks would gather of different samples.
class RememberingModel : public models::Forecaster {
 public:
  RememberingModel() { norm_ = register_module("norm", torch::nn::BatchNorm1d(6)); }
  models::Forecast forward(const models::Inputs& inputs) override {
    return {norm_->forward(inputs.past.flatten(1)).narrow(1, 0, 2).reshape({-1, 2, 1, 1})};
  }

 private:
  torch::nn::BatchNorm1d norm_{nullptr};
};

TEST(BackwardOrder, ABufferThatTrainingChangesIsRefused) {
  RememberingModel model;
  try {
    backward_order(model, {.inputs = 2, .window = 3, .horizon = 2, .targets = 1},
                   PrecisionMode::kFp32, c10::kCPU);
    FAIL() << "not refused";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("changes its buffer norm.running_"));
  }
}

}  // namespace
}  // namespace longship::runtime
