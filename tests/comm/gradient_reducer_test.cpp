#include "comm/gradient_reducer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <stdexcept>
#include <vector>

#include "comm/local_communicator.h"
#include "gradient_reducer_support.h"
#include "rank_threads.h"
#include "recording_communicator.h"

namespace longship::comm {
namespace {

using testing::HasSubstr;

class EveryWire : public testing::TestWithParam<WireFormat> {};

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
