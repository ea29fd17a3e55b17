#include "runtime/implementation_choice.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "comm/local_communicator.h"
#include "rank_group.h"
#include "two_ways_model.h"

namespace longship::runtime {
namespace {

using testing::ElementsAre;
using testing::Field;
using testing::IsEmpty;

constexpr models::ModelShape kShape{.inputs = 2, .window = 3, .horizon = 1, .targets = 1};

models::Inputs some_inputs() {
  models::Inputs inputs;
  inputs.past = at::ones({4, 3, 2});
  return inputs;
}

TEST(TimeImplementations, TakesTheQuickOneAndLeavesNoGradients) {
  tests::TwoWays model(kShape);
  const auto timed =
      time_implementations(model, some_inputs(), PrecisionMode::kFp32, /*as_graph=*/true);
  ASSERT_EQ(timed.size(), 2);
  EXPECT_EQ(timed[0].name, "slow");
  EXPECT_GE(timed[0].ms, 3);
  EXPECT_EQ(fastest(timed), "quick");
  EXPECT_EQ(model.used, "slow") << "the first one until a caller chooses";
  EXPECT_EQ(model.inferences, 0);
  for (const at::Tensor& parameter : model.parameters()) {
    EXPECT_FALSE(parameter.grad().defined());
  }
}

TEST(TimeImplementations, WhatIsKnownIsNotTimedAgain) {
  tests::TwoWays model(kShape);
  model.eval();
  const auto known =
      time_implementations(model, some_inputs(), PrecisionMode::kFp32, /*as_graph=*/false, "slow");
  EXPECT_THAT(known, ElementsAre(Field(&TimedImplementation::name, "slow")));
  EXPECT_EQ(model.inferences, 0);
  const auto gone =
      time_implementations(model, some_inputs(), PrecisionMode::kFp32, /*as_graph=*/false, "other");
  EXPECT_EQ(fastest(gone), "quick");
}

TEST(TimeImplementations, InEvaluationModeTimesForwardAlone) {
  tests::TwoWays model(kShape);
  model.eval();
  time_implementations(model, some_inputs(), PrecisionMode::kFp32, /*as_graph=*/false);
  EXPECT_GT(model.inferences, 0);
}

TEST(Fastest, IsTheFirstOfEqualsAndNoneOfNothing) {
  EXPECT_EQ(fastest({{"a", 2}, {"b", 1}, {"c", 1}}), "b");
  EXPECT_EQ(fastest({{"a", std::numeric_limits<double>::infinity()}, {"b", 9}}), "b");
  EXPECT_EQ(fastest({}), "");
}

TEST(ChoiceText, NamesTheChosenFirst) {
  EXPECT_EQ(choice_text("own", {{"cudnn", 1.934}, {"own", 0.5463}}),
            "own, 0.546 ms (cudnn 1.93 ms)");
}

TEST(AgreeOnTimes, GivesWhatAllRanksCanWithTheSlowestOnesTimes) {
  const tests::Group group = comm::make_local_group(3);
  const std::vector<std::vector<TimedImplementation>> mine = {
      {{"a", 1}, {"b", 2}, {"c", 1}}, {{"b", 5}, {"a", 3}}, {{"a", 2}, {"b", 1}, {"c", 9}}};
  std::vector<std::vector<TimedImplementation>> agreed(3);
  tests::play_ranks(3, [&](int rank) {
    const auto r = static_cast<size_t>(rank);
    agreed[r] = agree_on_times(mine[r], tests::member(group, rank));
  });
  for (const auto& times : agreed) {
    EXPECT_THAT(
        times,
        ElementsAre(
            AllOf(Field(&TimedImplementation::name, "a"), Field(&TimedImplementation::ms, 3)),
            AllOf(Field(&TimedImplementation::name, "b"), Field(&TimedImplementation::ms, 5))));
  }
}

TEST(TimeOnAllRanks, IsOfABatchOfTheShape) {
  const tests::Group group = comm::make_local_group(2);
  tests::play_ranks(2, [&](int rank) {
    tests::TwoWays model(kShape);
    const auto timed = time_on_all_ranks(model, 4, kShape, PrecisionMode::kFp32, /*as_graph=*/false,
                                         c10::kCPU, tests::member(group, rank), "node");
    EXPECT_EQ(fastest(timed), "quick");
  });
}

TEST(AgreeOnTimes, WithARankThatHasNoChoiceThereIsNone) {
  const tests::Group group = comm::make_local_group(2);
  tests::play_ranks(2, [&](int rank) {
    const std::vector<TimedImplementation> mine =
        rank == 0 ? std::vector<TimedImplementation>{{"a", 1}, {"b", 2}}
                  : std::vector<TimedImplementation>{};
    EXPECT_THAT(agree_on_times(mine, tests::member(group, rank)), IsEmpty());
  });
}

}  // namespace
}  // namespace longship::runtime
