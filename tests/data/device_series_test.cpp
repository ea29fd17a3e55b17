#include "data/device_series.h"

#include <ATen/Functions.h>
#include <ATen/cuda/CUDAContext.h>
#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <vector>

#include "data/batch_loader.h"
#include "data/series_file.h"
#include "test_files.h"

namespace longship::data {
namespace {

// Two series of three columns, of which the inputs are c and a, the targets b and a.
std::shared_ptr<const Dataset> open_dataset(const TemporaryFolder& folder) {
  write_series_file(folder.path("data.h5"), make_table({counted(40, 3), counted(25, 3)}), true);
  DatasetSpec spec;
  spec.paths = {folder.path("data.h5")};
  spec.inputs = {"c", "a"};
  spec.targets = {"b", "a"};
  spec.window = 5;
  spec.horizon = 3;
  spec.split = SplitFractions{0.8, 0.1, 0.1};
  return Dataset::open(spec);
}

TEST(DatasetMatrices, HoldTheRowsThatWindowsAreCutFrom) {
  const TemporaryFolder folder;
  const auto dataset = open_dataset(folder);
  EXPECT_EQ(dataset->input_matrix().sizes(), at::IntArrayRef({65, 2}));
  EXPECT_EQ(DeviceSeries::bytes_for(*dataset), 65 * 4 * 4);
  const int64_t last = dataset->windows(Split::kTrain) - 1;
  const int64_t row = dataset->first_row(Split::kTrain, last);
  EXPECT_GT(row, 40);  // in the second series
  const Batch batch = dataset->gather(Split::kTrain, std::vector<int64_t>{last});
  EXPECT_TRUE(at::equal(batch.past[0], dataset->input_matrix().narrow(0, row, 5)));
  EXPECT_TRUE(at::equal(batch.target[0], dataset->target_matrix().narrow(0, row + 5, 3)));
}

class DeviceSeriesGpuTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!at::cuda::is_available()) GTEST_SKIP() << "there is no GPU";
  }
  const TemporaryFolder folder_;
  const c10::Device device_{c10::kCUDA, 0};
};

TEST_F(DeviceSeriesGpuTest, CutsTheWindowsThatTheHostCuts) {
  const auto dataset = open_dataset(folder_);
  const DeviceSeries series(*dataset, device_);
  std::vector<int64_t> windows;
  std::vector<int64_t> rows;
  for (int64_t window = dataset->windows(Split::kTrain) - 1; window >= 0; --window) {
    windows.push_back(window);
    rows.push_back(dataset->first_row(Split::kTrain, window));
  }
  const auto count = static_cast<int64_t>(windows.size());
  const at::Tensor past = series.make_past(count);
  const at::Tensor target = series.make_target(count);
  series.gather(at::tensor(rows, at::kLong).to(device_), past, target);
  const Batch expected = dataset->gather(Split::kTrain, windows);
  EXPECT_TRUE(at::equal(past.cpu(), expected.past));
  EXPECT_TRUE(at::equal(target.cpu(), expected.target));
}

TEST_F(DeviceSeriesGpuTest, TheLoaderSendsWindowsOrRows) {
  const auto dataset = open_dataset(folder_);
  const DeviceSeries series(*dataset, device_);
  LoaderPlan plan;
  plan.end_step = 6;
  plan.end_micro_batch = 2;
  plan.batch_size = 16;
  plan.micro_batch_size = 8;
  plan.end_position = 16 * 6 - 3;
  const SampleOrder order(1, 2, dataset->windows(Split::kTrain));
  BatchLoader on_host(dataset, order, plan, c10::kCPU);
  BatchLoader windows(dataset, order, plan, device_);
  plan.rows_only = true;
  BatchLoader rows(dataset, order, plan, device_);
  const at::Tensor past = series.make_past(8);
  const at::Tensor target = series.make_target(8);
  for (int64_t i = 0; i < 12; ++i) {
    const MicroBatch expected = on_host.next();
    const MicroBatch sent = windows.next();
    const MicroBatch cut = rows.next();
    EXPECT_EQ(expected.samples, i < 10 ? 16 : 13);
    EXPECT_EQ(sent.samples, expected.samples);
    EXPECT_EQ(cut.windows, expected.windows);
    EXPECT_TRUE(at::equal(sent.batch.past.cpu(), expected.batch.past));
    EXPECT_TRUE(at::equal(sent.batch.target.cpu(), expected.batch.target));
    EXPECT_FALSE(cut.batch.past.defined());
    series.gather(cut.first_rows, past, target);
    EXPECT_TRUE(at::equal(past.cpu(), expected.batch.past));
    EXPECT_TRUE(at::equal(target.cpu(), expected.batch.target));
    EXPECT_TRUE(at::equal(cut.weight.cpu(), expected.weight));
  }
  EXPECT_THROW(windows.next(), std::out_of_range);
}

}  // namespace
}  // namespace longship::data
