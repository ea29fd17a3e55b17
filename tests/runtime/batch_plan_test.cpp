#include "runtime/batch_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "runtime/error.h"

namespace longship::runtime {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

Config::Train train(int64_t batch_size, double epochs, int64_t steps = 0) {
  Config::Train config;
  config.batch_size = batch_size;
  config.epochs = epochs;
  config.steps = steps;
  return config;
}

template <typename Call>
std::string refusal(Call call) {
  try {
    call();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "(not refused)";
}

TEST(BatchPlan, RanksTakeContiguousRunsThatDifferByAtMostOne) {
  for (const int ranks : {1, 2, 3, 4, 5, 7, 8}) {
    int64_t next = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      const BatchPlan plan = make_batch_plan(train(1024, 1), 128, 5000, rank, ranks);
      EXPECT_EQ(plan.micro_batches, 8);
      EXPECT_EQ(plan.first_micro_batch, next);
      EXPECT_GE(plan.micro_steps(), 8 / ranks);
      EXPECT_LE(plan.micro_steps(), (8 + ranks - 1) / ranks);
      next = plan.end_micro_batch;
    }
    EXPECT_EQ(next, 8) << ranks;
  }
}

TEST(BatchPlan, DescribesItself) {
  const auto text = [](int64_t micro_batch_size, int ranks) {
    return make_batch_plan(train(1024, 1), micro_batch_size, 5000, 0, ranks).describe(ranks);
  };
  EXPECT_EQ(text(128, 2), "1024 = 8 micro-batches x 128, 4 a rank on 2 ranks");
  EXPECT_EQ(text(128, 3), "1024 = 8 micro-batches x 128, 2 or 3 a rank on 3 ranks");
  EXPECT_EQ(text(1024, 1), "1024 = 1 micro-batch x 1024, 1 a rank on 1 rank");
}

TEST(BatchPlan, OnlyTheLastStepIsPadded) {
  const BatchPlan plan = make_batch_plan(train(1024, 2.5), 128, 1000, 0, 1);
  EXPECT_EQ(plan.end_position, 2500);
  EXPECT_EQ(plan.total_steps, 3);
  EXPECT_EQ(plan.samples(0), 1024);
  EXPECT_EQ(plan.samples(1), 1024);
  EXPECT_EQ(plan.samples(2), 452);
  EXPECT_EQ(plan.samples(3), 0);
  EXPECT_DOUBLE_EQ(plan.epoch(1), 1.024);
  EXPECT_DOUBLE_EQ(plan.epoch(3), 2.5);
}

TEST(BatchPlan, StepsWinOverEpochsAndAreNeverPadded) {
  const BatchPlan plan = make_batch_plan(train(24, 3, 10), 4, 100, 0, 1);
  EXPECT_EQ(plan.total_steps, 10);
  EXPECT_EQ(plan.end_position, 240);
  EXPECT_EQ(plan.samples(9), 24);
}

TEST(BatchPlan, TheShortestRunIsOneStep) {
  EXPECT_EQ(make_batch_plan(train(24, 1e-4), 4, 100, 0, 1).total_steps, 1);
}

TEST(BatchPlan, TellsTheLoaderWhatToLoad) {
  const BatchPlan plan = make_batch_plan(train(24, 2), 4, 100, 1, 4);
  const data::LoaderPlan loader = plan.loader_plan(5);
  EXPECT_EQ(loader.first_step, 5);
  EXPECT_EQ(loader.end_step, 9);  // 200 samples in steps of 24
  EXPECT_EQ(loader.first_micro_batch, 1);
  EXPECT_EQ(loader.end_micro_batch, 3);
  EXPECT_EQ(loader.batch_size, 24);
  EXPECT_EQ(loader.micro_batch_size, 4);
  EXPECT_EQ(loader.end_position, 200);
}

TEST(BatchPlan, RefusesWhatCannotBeDivided) {
  const auto plan = [](int64_t batch, int64_t micro, int64_t windows, int ranks) {
    return refusal([=] { make_batch_plan(train(batch, 1), micro, windows, 0, ranks); });
  };
  EXPECT_THAT(plan(100, 30, 500, 1),
              HasSubstr("train.micro_batch_size 30 does not divide train.batch_size 100"));
  EXPECT_THAT(plan(100, 10, 3, 4),
              AllOf(HasSubstr("3 windows, fewer than the 4 ranks"), HasSubstr("data.window")));
  EXPECT_THAT(plan(100, 25, 500, 8),
              AllOf(HasSubstr("more ranks (8) than micro-batches (4 = train.batch_size 100 / "
                              "train.micro_batch_size 25)"),
                    HasSubstr("at most 4 ranks"), HasSubstr("train.micro_batch_size to 10")));
}

TEST(ChooseMicroBatchSize, TakesTheLargestDivisorThatFeedsEveryRankAndFits) {
  const auto all = [](int64_t) { return true; };
  EXPECT_EQ(choose_micro_batch_size(1024, 1, all), 1024);
  EXPECT_EQ(choose_micro_batch_size(1024, 8, all), 128);
  EXPECT_EQ(choose_micro_batch_size(1024, 7, all), 128);
  EXPECT_EQ(choose_micro_batch_size(1000, 3, all), 250);
  EXPECT_EQ(choose_micro_batch_size(7, 7, all), 1);
  EXPECT_EQ(choose_micro_batch_size(1000, 3, [](int64_t size) { return size <= 100; }), 100);
}

TEST(ChooseMicroBatchSize, TriesDivisorsOnlyFromTheLargest) {
  std::vector<int64_t> tried;
  choose_micro_batch_size(12, 2, [&tried](int64_t size) {
    tried.push_back(size);
    return size <= 2;
  });
  EXPECT_THAT(tried, ElementsAre(6, 4, 3, 2));
}

TEST(ChooseMicroBatchSize, SaysWhenNothingWillDo) {
  EXPECT_THAT(refusal([] { choose_micro_batch_size(4, 5, [](int64_t) { return true; }); }),
              AllOf(HasSubstr("train.batch_size 4"), HasSubstr("5 ranks")));
  EXPECT_THAT(refusal([] { choose_micro_batch_size(4, 1, [](int64_t) { return false; }); }),
              HasSubstr("not even one sample fits"));
}

}  // namespace
}  // namespace longship::runtime
