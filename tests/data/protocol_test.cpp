// The data path on a published benchmark: window counts, scaler and the last-value forecast, whose
// error has no randomness.
#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "data/csv_import.h"
#include "data/dataset.h"
#include "data/series_file.h"
#include "test_files.h"

namespace longship::data {
namespace {

class ProtocolTest : public ::testing::Test {
 protected:
  // Converts a CSV file in the temporary folder and opens all its columns as inputs and targets.
  std::shared_ptr<const Dataset> open(const std::string& csv, const SplitSpec& split,
                                      int64_t window, int64_t horizon) {
    const CsvImport imported = import_csv({csv}, {});
    write_series_file(folder_.path("data.h5"), imported.table, true);
    DatasetSpec spec;
    spec.paths = {folder_.path("data.h5")};
    spec.inputs = imported.table.columns;
    spec.targets = imported.table.columns;
    spec.window = window;
    spec.horizon = horizon;
    spec.split = split;
    return Dataset::open(spec);
  }

  // Mean squared and absolute error over the test windows of repeating the last value.
  static std::pair<double, double> repeat_errors(const Dataset& dataset) {
    double squares = 0;
    double magnitudes = 0;
    int64_t count = 0;
    const int64_t windows = dataset.windows(Split::kTest);
    for (int64_t first = 0; first < windows; first += 500) {
      std::vector<int64_t> some(static_cast<size_t>(std::min<int64_t>(500, windows - first)));
      std::iota(some.begin(), some.end(), first);
      const Batch batch = dataset.gather(Split::kTest, some);
      const at::Tensor last =
          dataset.history(Split::kTest, some).narrow(1, dataset.spec().window - 1, 1);
      const at::Tensor error = (batch.target - last).to(at::kDouble);
      squares += error.square().sum().item<double>();
      magnitudes += error.abs().sum().item<double>();
      count += error.numel();
    }
    return {squares / static_cast<double>(count), magnitudes / static_cast<double>(count)};
  }

  TemporaryFolder folder_;
  const SplitRows ett_ = {{{0, 8640}, {8640, 11520}, {11520, 14400}}};
};

TEST_F(ProtocolTest, EttH1) {
  LONGSHIP_SHARED_FILE(csv, "data/ETTh1.csv");
  const auto dataset = open(csv, ett_, 336, 96);
  EXPECT_EQ(dataset->windows(Split::kTrain), 8209);
  EXPECT_EQ(dataset->windows(Split::kValidation), 2785);
  EXPECT_EQ(dataset->windows(Split::kTest), 2785);
  const std::vector<double> mean = {7.93774, 2.02104, 5.07977, .74619, 2.78176, .78845, 17.12826};
  const std::vector<double> deviation = {5.81275, 2.09010, 5.51879, 1.92638,
                                         1.02352, .63024,  9.17649};
  for (size_t i = 0; i < mean.size(); ++i) {
    EXPECT_NEAR(dataset->normalizer().shift[i], mean[i], 5e-6);
    EXPECT_NEAR(dataset->normalizer().scale[i], deviation[i], 5e-6);
  }
  const auto [mse, mae] = repeat_errors(*dataset);
  EXPECT_NEAR(mse, 1.2944, 1e-4);
  EXPECT_NEAR(mae, 0.713, 5e-4);
}

TEST_F(ProtocolTest, EttH1WithAShortLookBack) {
  LONGSHIP_SHARED_FILE(csv, "data/ETTh1.csv");
  const auto dataset = open(csv, ett_, 96, 96);
  EXPECT_EQ(dataset->windows(Split::kTrain), 8449);
  EXPECT_EQ(dataset->windows(Split::kTest), 2785);
  EXPECT_NEAR(repeat_errors(*dataset).first, 1.2944, 1e-4);
}

TEST_F(ProtocolTest, ExchangeRates) {
  LONGSHIP_SHARED_FILE(csv, "data/darts_exchange_rate.csv");
  const auto dataset = open(csv, SplitFractions{0.7, 0.1, 0.2}, 336, 720);
  EXPECT_EQ(dataset->windows(Split::kTrain), 4256);
  EXPECT_EQ(dataset->windows(Split::kValidation), 41);
  EXPECT_EQ(dataset->windows(Split::kTest), 798);
  EXPECT_NEAR(repeat_errors(*dataset).first, 0.8101, 1e-4);
}

}  // namespace
}  // namespace longship::data
