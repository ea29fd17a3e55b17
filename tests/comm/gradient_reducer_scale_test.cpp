// The reducer's wire scales: neither sums that overflow nor small means that vanish.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <vector>

#include "comm/gradient_reducer.h"
#include "comm/local_communicator.h"
#include "gradient_reducer_support.h"
#include "rank_threads.h"
#include "recording_communicator.h"

namespace longship::comm {
namespace {

class EveryWireScale : public testing::TestWithParam<WireFormat> {};

INSTANTIATE_TEST_SUITE_P(Wire, EveryWireScale,
                         testing::Values(WireFormat::kFp32, WireFormat::kFp16, WireFormat::kBf16),
                         wire_name);

TEST_P(EveryWireScale, NeitherOverflowsInTheSumNorLosesASmallMean) {
  const auto group = make_local_group(4);
  play_ranks(group, [&](Communicator& communicator) {
    // 40000 fits float16, its sum over 4 ranks does not; 2^-30 is below its smallest number.
    for (const float value : {40000.0F, 3e8F, std::ldexp(1.1F, -30), std::ldexp(1.3F, -60)}) {
      const auto parameters = make_parameters(kShapes);
      GradientReducer reducer(parameters, communicator, small_buckets(GetParam()));
      for (int round = 0; round < 3; ++round) {
        step(reducer, parameters, value);
        EXPECT_LT(distance(parameters, 4 * value), tolerance(GetParam())) << value << ' ' << round;
      }
    }
  });
}

TEST_P(EveryWireScale, AnOverflowOnOneRankIsSeenOnAll) {
  const auto group = make_local_group(3);
  play_ranks(group, [&](Communicator& communicator) {
    const auto parameters = make_parameters(kShapes);
    GradientReducer reducer(parameters, communicator, small_buckets(GetParam()));
    for (const float bad : {kInfinity, std::nanf("")}) {
      step(reducer, parameters, communicator.rank() == 2 ? bad : 1.0F);
      for (const auto& bucket : reducer.buckets()) {
        EXPECT_FALSE(torch::isfinite(bucket).all().item<bool>());
      }
      step(reducer, parameters, 1);
      EXPECT_LT(distance(parameters, 3), tolerance(GetParam()));
    }
  });
}

TEST_P(EveryWireScale, LossScalesDoNotDisturb) {
  const auto group = make_local_group(2);
  play_ranks(group, [&](Communicator& communicator) {
    const auto parameters = make_parameters(kShapes);
    const auto twins = make_parameters(kShapes);
    GradientReducer reducer(parameters, communicator, small_buckets(GetParam()));
    GradientReducer unscaled(twins, communicator, small_buckets(GetParam()));
    const auto loss_scale = torch::ones({});
    reducer.set_loss_scale(loss_scale);
    for (const int exponent : {16, 16, 10, 0, 20, 3}) {
      const float factor = std::ldexp(1.0F, exponent);
      loss_scale.fill_(factor);
      step(reducer, parameters, 0.3F * factor);
      step(unscaled, twins, 0.3F);
      for (size_t b = 0; b < reducer.buckets().size(); ++b) {
        EXPECT_TRUE(torch::equal(reducer.buckets()[b], unscaled.buckets()[b] * factor)) << exponent;
      }
    }
    EXPECT_TRUE(torch::equal(torch::nan_to_num(reducer.state(), 77),
                             torch::nan_to_num(unscaled.state(), 77)));
  });
}

// Gradients of a step that differ by rank and element.
void random_step(GradientReducer& reducer, const std::vector<at::Tensor>& parameters,
                 const Communicator& communicator, int number) {
  auto generator =
      at::detail::createCPUGenerator(static_cast<uint64_t>(1000 * number + communicator.rank()));
  std::vector<at::Tensor> gradients;
  for (const auto& parameter : parameters) {
    gradients.push_back(torch::randn(parameter.sizes(), generator, torch::kFloat) *
                        std::pow(1.7F, static_cast<float>(number)));
  }
  reducer.zero();
  reducer.begin_micro_step(true);
  backward(parameters, gradients);
  reducer.finalize();
}

TEST_P(EveryWireScale, RunsAgainAndResumesWithEqualBits) {
  const auto group = make_local_group(3);
  play_ranks(group, [&](Communicator& communicator) {
    const auto parameters = make_parameters(kShapes);
    const auto again = make_parameters(kShapes);
    const auto resumed = make_parameters(kShapes);
    const auto options = small_buckets(GetParam());
    GradientReducer reducer(parameters, communicator, options);
    GradientReducer second(again, communicator, options);
    GradientReducer third(resumed, communicator, options);
    for (int number = 0; number < 8; ++number) {
      if (number == 5) third.load_state(reducer.state());
      random_step(reducer, parameters, communicator, number);
      random_step(second, again, communicator, number);
      if (number >= 5) random_step(third, resumed, communicator, number);
      for (size_t b = 0; b < reducer.buckets().size(); ++b) {
        EXPECT_TRUE(torch::equal(reducer.buckets()[b], second.buckets()[b])) << number;
        if (number < 5) continue;
        EXPECT_TRUE(torch::equal(reducer.buckets()[b], third.buckets()[b])) << number;
      }
    }
  });
}

TEST(GradientReducerScale, AWireOverflowLowersTheNextScale) {
  const auto group = make_local_group(2);
  play_ranks(group, [](Communicator& communicator) {
    const auto parameters = make_parameters(kShapes);
    GradientReducer reducer(parameters, communicator, small_buckets(WireFormat::kFp16));
    step(reducer, parameters, 1e-3F);
    step(reducer, parameters, 1e-3F * 60);  // within the headroom
    EXPECT_LT(distance(parameters, 0.12F), 1e-3F);
    step(reducer, parameters, 3e4F);
    EXPECT_FALSE(all_finite(reducer));
    step(reducer, parameters, 3e4F);
    EXPECT_LT(distance(parameters, 6e4F), 1e-3F);
  });
}

TEST(GradientReducerScale, AgreesOnScalesOnlyWithoutHistory) {
  const auto group = make_local_group(2);
  play_ranks(group, [](Communicator& communicator) {
    RecordingCommunicator recorder(communicator);
    const auto parameters = make_parameters(kShapes);
    GradientReducer reducer(parameters, recorder, small_buckets(WireFormat::kFp16));
    const size_t buckets = reducer.buckets().size();
    const auto sent_in_a_step = [&] {
      recorder.all_reduced.clear();
      step(reducer, parameters, 1);
      return recorder.all_reduced.size();
    };
    EXPECT_EQ(sent_in_a_step(), buckets + 1);
    EXPECT_EQ(sent_in_a_step(), buckets);
    const auto state = reducer.state();
    EXPECT_EQ(state.sizes(), (std::vector<int64_t>{static_cast<int64_t>(buckets), 16}));
    reducer.load_state(torch::zeros({1, 3}));  // of another layout
    EXPECT_EQ(sent_in_a_step(), buckets + 1);
    reducer.load_state(state);
    EXPECT_EQ(sent_in_a_step(), buckets);
  });
}

TEST(GradientReducerScale, AStepThatWasNotFiniteTellsNoScale) {
  const auto group = make_local_group(2);
  play_ranks(group, [&](Communicator& communicator) {
    const auto parameters = make_parameters(kShapes);
    GradientReducer reducer(parameters, communicator, small_buckets(WireFormat::kFp16));
    step(reducer, parameters, kInfinity);
    EXPECT_FALSE(reducer.settled());
    // Far below what the scale of no history would leave of it.
    step(reducer, parameters, 1e-12F);
    EXPECT_TRUE(reducer.settled());
    EXPECT_LT(distance(parameters, 2e-12F), 1e-3F);
  });
}

}  // namespace
}  // namespace longship::comm
