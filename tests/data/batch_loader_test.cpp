#include "data/batch_loader.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>

#include "data/error.h"
#include "data/series_file.h"
#include "test_files.h"

namespace longship::data {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class BatchLoaderTest : public ::testing::Test {
 protected:
  BatchLoaderTest() {
    std::vector<std::vector<float>> rows;
    for (int row = 0; row < 13; ++row) rows.push_back({static_cast<float>(row)});
    write_series_file(folder_.path("data.h5"), make_table({rows}), false);
    DatasetSpec spec;
    spec.paths = {folder_.path("data.h5")};
    spec.inputs = {"a"};
    spec.targets = {"a"};
    spec.window = 3;
    spec.split = SplitFractions{1, 0, 0};
    spec.normalize = "none";
    dataset_ = Dataset::open(spec);  // ten windows; window w starts with the value w
  }

  // 2.5 epochs in batches of 8, micro-batches of 2.
  LoaderPlan plan() const {
    LoaderPlan plan;
    plan.end_step = 4;
    plan.end_micro_batch = 4;
    plan.batch_size = 8;
    plan.micro_batch_size = 2;
    plan.end_position = 25;
    return plan;
  }

  TemporaryFolder folder_;
  std::shared_ptr<const Dataset> dataset_;
};

TEST_F(BatchLoaderTest, GivesTheWindowsOfTheOrder) {
  const SampleOrder order(1, 2, 10);
  BatchLoader loader(dataset_, order, plan(), c10::kCPU, 2);
  int64_t position = 0;
  for (int64_t step = 0; step < 3; ++step) {
    for (int64_t number = 0; number < 4; ++number) {
      const MicroBatch micro_batch = loader.next();
      EXPECT_EQ(micro_batch.step, step);
      EXPECT_EQ(micro_batch.micro_batch, number);
      ASSERT_EQ(micro_batch.windows.size(), 2);
      EXPECT_EQ(micro_batch.batch.past.sizes(), at::IntArrayRef({2, 3, 1}));
      EXPECT_EQ(micro_batch.weight.sum().item<float>(), 2);
      for (int64_t i = 0; i < 2; ++i, ++position) {
        EXPECT_EQ(micro_batch.windows[static_cast<size_t>(i)], order.at(position));
        EXPECT_EQ(micro_batch.batch.past[i][0][0].item<float>(),
                  static_cast<float>(order.at(position)));
        EXPECT_EQ(micro_batch.batch.target[i][0][0].item<float>(),
                  static_cast<float>(order.at(position) + 3));
      }
    }
  }
}

TEST_F(BatchLoaderTest, PadsTheLastStepWithWeightZero) {
  const SampleOrder order(1, 2, 10, false);
  LoaderPlan last = plan();
  last.first_step = 3;
  BatchLoader loader(dataset_, order, last, c10::kCPU);
  MicroBatch micro_batch = loader.next();  // position 24 is the last one
  EXPECT_THAT(micro_batch.windows, ElementsAre(4));
  EXPECT_TRUE(at::equal(micro_batch.weight, at::tensor({1.f, 0.f})));
  EXPECT_EQ(micro_batch.batch.past[1][0][0].item<float>(), 4);
  micro_batch = loader.next();
  EXPECT_THAT(micro_batch.windows, IsEmpty());
  EXPECT_TRUE(at::equal(micro_batch.weight, at::tensor({0.f, 0.f})));
  EXPECT_EQ(micro_batch.batch.past[0][0][0].item<float>(), 4);
  loader.next();
  loader.next();
  EXPECT_THROW(loader.next(), std::out_of_range);
  EXPECT_THROW(loader.next(), std::out_of_range);
}

TEST_F(BatchLoaderTest, TakesOnlyTheMicroBatchesOfItsRank) {
  const SampleOrder order(1, 2, 10);
  LoaderPlan part = plan();
  part.first_step = 1;
  part.end_step = 3;
  part.first_micro_batch = 1;
  part.end_micro_batch = 3;
  BatchLoader loader(dataset_, order, part, c10::kCPU, 1);
  for (const auto& [step, number] : {std::pair{1, 1}, {1, 2}, {2, 1}, {2, 2}}) {
    const MicroBatch micro_batch = loader.next();
    EXPECT_EQ(micro_batch.step, step);
    EXPECT_EQ(micro_batch.micro_batch, number);
    EXPECT_EQ(micro_batch.windows.front(), order.at(step * 8 + number * 2));
  }
  EXPECT_THROW(loader.next(), std::out_of_range);
}

TEST_F(BatchLoaderTest, ErrorsOfThePrefetchThreadComeOutOfNext) {
  // An order of more windows than the dataset has: the thread's gather() fails.
  BatchLoader loader(dataset_, SampleOrder(1, 2, 1'000'000), plan(), c10::kCPU);
  EXPECT_THAT(message_of<std::out_of_range>([&] { loader.next(); }), ::testing::HasSubstr("of 10"));
}

TEST_F(BatchLoaderTest, EndsEarlyWithoutBeingDrained) {
  BatchLoader loader(dataset_, SampleOrder(1, 2, 10), plan(), c10::kCPU, 1);
  EXPECT_EQ(loader.next().step, 0);
}

TEST_F(BatchLoaderTest, RefusesABatchThatMicroBatchesDoNotDivide) {
  LoaderPlan uneven = plan();
  uneven.micro_batch_size = 3;
  EXPECT_THROW(BatchLoader(dataset_, SampleOrder(1, 2, 10), uneven, c10::kCPU), DataError);
}

TEST_F(BatchLoaderTest, TrainingBatchesHaveNoMaskOfFilledTargets) {
  std::vector<std::vector<float>> rows;
  for (int row = 0; row < 13; ++row) rows.push_back({static_cast<float>(row)});
  rows[5] = {std::numeric_limits<float>::quiet_NaN()};
  write_series_file(folder_.path("holes.h5"), make_table({rows}), false);
  DatasetSpec spec = dataset_->spec();
  spec.paths = {folder_.path("holes.h5")};
  spec.missing = MissingPolicy::kInterpolate;
  const auto filled = Dataset::open(spec);
  const std::vector<int64_t> windows = {2};
  ASSERT_TRUE(filled->gather(Split::kTrain, windows).observed.defined());
  BatchLoader loader(filled, SampleOrder(1, 2, 10), plan(), c10::kCPU, 1);
  for (int i = 0; i < 4; ++i) EXPECT_FALSE(loader.next().batch.observed.defined());
}

}  // namespace
}  // namespace longship::data
