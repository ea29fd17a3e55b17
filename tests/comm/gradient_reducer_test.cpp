#include "comm/gradient_reducer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "comm/local_communicator.h"
#include "rank_threads.h"
#include "recording_communicator.h"

namespace longship::comm {
namespace {

using testing::HasSubstr;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<at::Tensor> make_parameters(const std::vector<std::vector<int64_t>>& shapes) {
  std::vector<at::Tensor> parameters;
  for (const auto& shape : shapes) parameters.push_back(torch::zeros(shape).requires_grad_());
  return parameters;
}

// Runs backward so that parameter p gets the gradient gradients[p]; undefined: it is not used.
void backward(const std::vector<at::Tensor>& parameters, const std::vector<at::Tensor>& gradients) {
  at::Tensor loss = torch::zeros({}, torch::requires_grad());
  for (size_t p = 0; p < parameters.size(); ++p) {
    if (gradients[p].defined()) loss = loss + (parameters[p] * gradients[p]).sum();
  }
  loss.backward();
}

std::vector<at::Tensor> filled(const std::vector<at::Tensor>& parameters, float value) {
  std::vector<at::Tensor> gradients;
  for (const auto& parameter : parameters) gradients.push_back(torch::full_like(parameter, value));
  return gradients;
}

// One step of a single micro-step in which all gradients are `value`.
void step(GradientReducer& reducer, const std::vector<at::Tensor>& parameters, float value) {
  reducer.zero();
  reducer.begin_micro_step(true);
  backward(parameters, filled(parameters, value));
  reducer.finalize();
}

ReducerOptions small_buckets(WireFormat wire) {
  ReducerOptions options;
  options.wire = wire;
  options.first_bucket_bytes = 64;
  options.bucket_bytes = 256;
  return options;
}

// Largest relative distance of all gradients from one number.
float distance(const std::vector<at::Tensor>& parameters, float want) {
  float largest = 0;
  for (const auto& parameter : parameters) {
    largest = std::fmax(largest, ((parameter.grad() - want) / want).abs().max().item<float>());
  }
  return largest;
}

bool all_finite(const GradientReducer& reducer) {
  for (const auto& bucket : reducer.buckets()) {
    if (!torch::isfinite(bucket).all().item<bool>()) return false;
  }
  return true;
}

// Rounding of one value in the wire's type, and of the sum.
float tolerance(WireFormat wire) {
  switch (wire) {
    case WireFormat::kFp32:
      return 1e-6F;
    case WireFormat::kFp16:
      return 1e-3F;
    case WireFormat::kBf16:
      return 1.2e-2F;
  }
  return 0;
}

const std::vector<std::vector<int64_t>> kShapes{{5, 3}, {7}, {16, 16}, {1}, {2, 9}};

class EveryWire : public testing::TestWithParam<WireFormat> {};

std::string wire_name(const testing::TestParamInfo<WireFormat>& test) {
  switch (test.param) {
    case WireFormat::kFp32:
      return "fp32";
    case WireFormat::kFp16:
      return "fp16";
    case WireFormat::kBf16:
      return "bf16";
  }
  return "unknown";
}

INSTANTIATE_TEST_SUITE_P(Wire, EveryWire,
                         testing::Values(WireFormat::kFp32, WireFormat::kFp16, WireFormat::kBf16),
                         wire_name);

TEST_P(EveryWire, SumsUnevenMicroSteps) {
  for (const int size : {1, 2, 3, 7}) {
    const auto group = make_local_group(size);
    play_ranks(group, [&](Communicator& communicator) {
      const auto parameters = make_parameters(kShapes);
      GradientReducer reducer(parameters, communicator, small_buckets(GetParam()));
      for (int round = 0; round < 3; ++round) {
        reducer.zero();
        const int micro_steps = 1 + communicator.rank() % 2;
        for (int m = 0; m < micro_steps; ++m) {
          reducer.begin_micro_step(m + 1 == micro_steps);
          std::vector<at::Tensor> gradients;
          for (size_t p = 0; p < parameters.size(); ++p) {
            gradients.push_back(torch::full_like(parameters[p], static_cast<float>(p + 1)));
          }
          backward(parameters, gradients);
        }
        reducer.finalize();
        // Ranks 0, 2, 4.. ran one micro-step, ranks 1, 3, 5.. two.
        const auto micro_batches = static_cast<float>(size + size / 2);
        for (size_t p = 0; p < parameters.size(); ++p) {
          EXPECT_LT(distance({parameters[p]}, micro_batches * static_cast<float>(p + 1)),
                    tolerance(GetParam()))
              << size << " ranks, parameter " << p;
        }
      }
    });
  }
}

TEST_P(EveryWire, CountsUnusedParametersAsZero) {
  const auto group = make_local_group(3);
  play_ranks(group, [&](Communicator& communicator) {
    const auto parameters = make_parameters(kShapes);
    GradientReducer reducer(parameters, communicator, small_buckets(GetParam()));
    for (int round = 0; round < 2; ++round) {
      reducer.zero();
      reducer.begin_micro_step(true);
      auto gradients = filled(parameters, 2);
      gradients[4] = at::Tensor();                                      // used by no rank
      if (communicator.rank() == 1) gradients[1] = at::Tensor();        // by two
      if (communicator.rank() == 2) gradients.assign(5, at::Tensor());  // nothing at all
      backward(parameters, gradients);
      reducer.finalize();
      EXPECT_LT(distance({parameters[0]}, 4), tolerance(GetParam()));
      EXPECT_LT(distance({parameters[1]}, 2), tolerance(GetParam()));
      EXPECT_EQ(parameters[4].grad().abs().max().item<float>(), 0.0F);
    }
  });
}

TEST_P(EveryWire, SendsInIndexOrderOnceAStep) {
  const auto group = make_local_group(2);
  play_ranks(group, [&](Communicator& communicator) {
    RecordingCommunicator recorder(communicator);
    const auto parameters = make_parameters({{20}, {20}, {20}, {20}, {20}, {20}});
    auto options = small_buckets(GetParam());
    options.bucket_bytes = 80;
    GradientReducer reducer(parameters, recorder, options);
    ASSERT_EQ(reducer.buckets().size(), 6U);
    step(reducer, parameters, 1);  // the wire buffers are known after it

    std::vector<void*> addresses;
    const bool half = GetParam() != WireFormat::kFp32;
    for (size_t i = recorder.all_reduced.size() - 6; i < recorder.all_reduced.size(); ++i) {
      addresses.push_back(recorder.all_reduced[i].data_ptr());
      EXPECT_EQ(recorder.all_reduced[i].numel(), half ? 22 : 20);
    }
    for (const bool forwards : {true, false}) {
      recorder.all_reduced.clear();
      reducer.zero();
      reducer.begin_micro_step(true);
      // A chain decides in which order gradients arrive: from the last used to the first. Each rank
      // takes its own.
      const bool ascending = forwards == (communicator.rank() == 0);
      at::Tensor chain = torch::ones({20});
      for (size_t i = 0; i < 6; ++i) chain = (chain + parameters[ascending ? i : 5 - i]) * 1;
      chain.sum().backward();
      // Ascending use means descending arrival, which is the order of buckets: all are on their
      // way.
      EXPECT_EQ(recorder.all_reduced.size(), 6U);
      reducer.finalize();
      ASSERT_EQ(recorder.all_reduced.size(), 6U);
      for (size_t b = 0; b < 6; ++b) EXPECT_EQ(recorder.all_reduced[b].data_ptr(), addresses[b]);
    }
  });
}

TEST_P(EveryWire, SendsNothingBeforeTheLastMicroStep) {
  const auto group = make_local_group(2);
  play_ranks(group, [&](Communicator& communicator) {
    RecordingCommunicator recorder(communicator);
    const auto parameters = make_parameters(kShapes);
    GradientReducer reducer(parameters, recorder, small_buckets(GetParam()));
    step(reducer, parameters, 1);
    recorder.all_reduced.clear();
    reducer.zero();
    for (int m = 0; m < 3; ++m) {
      reducer.begin_micro_step(false);
      backward(parameters, filled(parameters, 1));
    }
    EXPECT_TRUE(recorder.all_reduced.empty());
    reducer.begin_micro_step(true);
    backward(parameters, filled(parameters, 1));
    reducer.finalize();
    EXPECT_EQ(recorder.all_reduced.size(), reducer.buckets().size());
    EXPECT_LT(distance(parameters, 8), tolerance(GetParam()));
  });
}

TEST_P(EveryWire, GradientsAreViewsAndStaySo) {
  const auto group = make_local_group(2);
  play_ranks(group, [&](Communicator& communicator) {
    const auto parameters = make_parameters(kShapes);
    GradientReducer reducer(parameters, communicator, small_buckets(GetParam()));
    for (int round = 0; round < 3; ++round) {
      step(reducer, parameters, 3);
      for (size_t b = 0; b < reducer.layout().size(); ++b) {
        const auto& bucket = reducer.layout()[b];
        for (size_t i = 0; i < bucket.parameters.size(); ++i) {
          const auto& parameter = parameters[static_cast<size_t>(bucket.parameters[i])];
          EXPECT_EQ(parameter.grad().data_ptr<float>(),
                    reducer.buckets()[b].data_ptr<float>() + bucket.offsets[i]);
          EXPECT_EQ(parameter.grad().sizes(), parameter.sizes());
        }
      }
    }
  });
}

TEST_P(EveryWire, NeitherOverflowsInTheSumNorLosesASmallMean) {
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

TEST_P(EveryWire, AnOverflowOnOneRankIsSeenOnAll) {
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

TEST_P(EveryWire, LossScalesDoNotDisturb) {
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

TEST_P(EveryWire, RunsAgainAndResumesWithEqualBits) {
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

TEST_P(EveryWire, PoisonReachesEveryRankAndTheNextStepIsSound) {
  const auto group = make_local_group(3);
  play_ranks(group, [&](Communicator& communicator) {
    const auto parameters = make_parameters(kShapes);
    GradientReducer reducer(parameters, communicator, small_buckets(GetParam()));
    for (int round = 0; round < 2; ++round) {
      reducer.zero();
      if (communicator.rank() == 1) {
        reducer.poison();
      } else {
        reducer.begin_micro_step(true);
        backward(parameters, filled(parameters, 1));
      }
      reducer.finalize();
      EXPECT_FALSE(all_finite(reducer)) << round;
      step(reducer, parameters, 1);
      EXPECT_LT(distance(parameters, 3), tolerance(GetParam())) << round;
    }
  });
}

TEST(GradientReducer, AWireOverflowLowersTheNextScale) {
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

TEST(GradientReducer, AgreesOnScalesOnlyWithoutHistory) {
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

TEST(GradientReducer, CountsTheBytesItHandsOver) {
  const auto group = make_local_group(2);
  play_ranks(group, [](Communicator& communicator) {
    for (const auto wire : {WireFormat::kFp32, WireFormat::kFp16, WireFormat::kBf16}) {
      RecordingCommunicator recorder(communicator);
      const auto parameters = make_parameters(kShapes);
      GradientReducer reducer(parameters, recorder, small_buckets(wire));
      step(reducer, parameters, 1);
      recorder.all_reduced.clear();
      step(reducer, parameters, 1);
      size_t bytes = 0;
      for (const auto& tensor : recorder.all_reduced) bytes += tensor.nbytes();
      EXPECT_EQ(reducer.wire_bytes_per_step(), static_cast<int64_t>(bytes));
      int64_t elements = 0;
      for (const auto& bucket : reducer.buckets()) elements += bucket.numel();
      const auto slots = static_cast<int64_t>(2 * reducer.buckets().size());
      EXPECT_EQ(reducer.wire_bytes_per_step(),
                wire == WireFormat::kFp32 ? 4 * elements : 2 * (elements + slots));
    }
  });
}

TEST(GradientReducer, ASingleRankKeepsFloat32) {
  const auto alone = make_local_communicator();
  const auto parameters = make_parameters(kShapes);
  GradientReducer reducer(parameters, *alone, small_buckets(WireFormat::kFp16));
  step(reducer, parameters, 0.1F);
  EXPECT_EQ(distance(parameters, 0.1F), 0.0F);
}

TEST(GradientReducer, NamesAGradientThatWasReplaced) {
  const auto alone = make_local_communicator();
  const auto parameters = make_parameters(kShapes);
  GradientReducer reducer(parameters, *alone, {});
  reducer.zero();
  reducer.begin_micro_step(true);
  parameters[2].mutable_grad() = at::Tensor();
  try {
    backward(parameters, filled(parameters, 1));
    ADD_FAILURE() << "a lost view was not noticed";
  } catch (const std::logic_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("parameter 2 of shape [16, 16]"));
  }
}

TEST(GradientReducer, RefusesMisuse) {
  const auto alone = make_local_communicator();
  const auto parameters = make_parameters(kShapes);
  GradientReducer reducer(parameters, *alone, {});
  reducer.zero();
  reducer.begin_micro_step(true);
  EXPECT_THROW(reducer.begin_micro_step(false), std::logic_error);
  backward(parameters, filled(parameters, 1));
  EXPECT_THROW(backward(parameters, filled(parameters, 1)), std::logic_error);
  reducer.finalize();
  EXPECT_THROW(reducer.finalize(), std::logic_error);
  EXPECT_THROW(GradientReducer({}, *alone, {}), std::invalid_argument);
  EXPECT_THROW(GradientReducer({torch::zeros({2})}, *alone, {}), std::invalid_argument);
  EXPECT_THROW(GradientReducer({torch::zeros({2}, torch::kDouble).requires_grad_()}, *alone, {}),
               std::invalid_argument);
}

TEST(GradientReducer, RefusesAParameterThatComesTwice) {
  const auto alone = make_local_communicator();
  const at::Tensor tied = torch::zeros({4}).requires_grad_();
  const at::Tensor other = torch::zeros({2}).requires_grad_();
  EXPECT_THROW(GradientReducer({tied, other, tied}, *alone, {}), std::invalid_argument);
}

// As where a failed step tries what would fit into memory.
TEST(GradientReducer, BackwardAfterPoisonSendsNothing) {
  const auto group = make_local_group(2);
  play_ranks(group, [&](Communicator& inner) {
    RecordingCommunicator communicator(inner);
    const auto parameters = make_parameters(kShapes);
    GradientReducer reducer(parameters, communicator, small_buckets(WireFormat::kFp32));
    step(reducer, parameters, 1);
    communicator.all_reduced.clear();
    reducer.zero();
    reducer.begin_micro_step(true);
    if (inner.rank() == 1) {
      reducer.poison();
      backward(parameters, filled(parameters, 1));
      backward(parameters, filled(parameters, 1));
      EXPECT_TRUE(communicator.all_reduced.empty());
      reducer.poison();
    } else {
      backward(parameters, filled(parameters, 1));
    }
    reducer.finalize();
    EXPECT_FALSE(all_finite(reducer));
  });
}

TEST(GradientReducer, AStepThatWasNotFiniteTellsNoScale) {
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

TEST(GradientReducer, RefusesRanksWithDifferentModels) {
  const auto group = make_local_group(2);
  play_ranks(group, [](Communicator& communicator) {
    const auto parameters = make_parameters({{4, 3 + communicator.rank()}});
    EXPECT_THROW(GradientReducer(parameters, communicator, {}), std::logic_error);
  });
}

TEST(GradientReducer, LeavesNoHooksBehind) {
  const auto alone = make_local_communicator();
  const auto parameters = make_parameters(kShapes);
  std::make_unique<GradientReducer>(parameters, *alone, ReducerOptions{}).reset();
  parameters[0].mutable_grad() = at::Tensor();
  backward(parameters, filled(parameters, 5));
  EXPECT_EQ(distance({parameters[0]}, 5), 0.0F);
}

}  // namespace
}  // namespace longship::comm
