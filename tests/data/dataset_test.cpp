#include "data/dataset.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "data/error.h"
#include "stored_series.h"

namespace longship::data {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

class DatasetTest : public StoredSeriesTest {};

TEST_F(DatasetTest, GathersInputsTargetsAndHistoryInConfigOrder) {
  DatasetSpec spec = store(make_table({counted(20, 4), counted(6, 4)}, 1'000'000'000));
  spec.inputs = {"c", "a"};
  spec.targets = {"d", "a"};
  spec.split = SplitFractions{1, 0, 0};
  const auto dataset = Dataset::open(spec);
  EXPECT_EQ(dataset->windows(Split::kTrain), 16 + 2);
  const std::vector<int64_t> windows = {17, 2};
  const Batch batch = dataset->gather(Split::kTrain, windows);
  EXPECT_EQ(batch.past.sizes(), at::IntArrayRef({2, 3, 2}));
  EXPECT_EQ(batch.target.sizes(), at::IntArrayRef({2, 2, 2}));
  EXPECT_THAT(numbers_of(batch.past), ElementsAre(201, 1, 202, 2, 203, 3, 202, 2, 203, 3, 204, 4));
  EXPECT_THAT(numbers_of(batch.target), ElementsAre(304, 4, 305, 5, 305, 5, 306, 6));
  EXPECT_FALSE(batch.observed.defined());
  EXPECT_THAT(numbers_of(dataset->history(Split::kTrain, windows)),
              ElementsAre(301, 1, 302, 2, 303, 3, 302, 2, 303, 3, 304, 4));
  EXPECT_EQ(dataset->first_row(Split::kTrain, 17), 20 + 1);
  EXPECT_EQ(dataset->step_ns(), 1'000'000'000);
  EXPECT_EQ(dataset->rows(), 26);
  EXPECT_EQ(dataset->series_count(), 2);
  EXPECT_GE(dataset->bytes(), 26 * 3 * 4);
}

TEST_F(DatasetTest, OnlyEvaluationLooksBackOverABorder) {
  DatasetSpec spec = store(make_table({counted(20, 1)}));
  spec.split = SplitRows{{{0, 8}, {8, 12}, {12, 18}}};
  const auto dataset = Dataset::open(spec);
  EXPECT_EQ(dataset->windows(Split::kTrain), 8 - 5 + 1);
  EXPECT_EQ(dataset->windows(Split::kValidation), 4 - 2 + 1);
  EXPECT_EQ(dataset->windows(Split::kTest), 6 - 2 + 1);
  EXPECT_EQ(dataset->windows(Split::kAll), 20 - 5 + 1);
  const std::vector<int64_t> first = {0};
  EXPECT_THAT(numbers_of(dataset->gather(Split::kValidation, first).past), ElementsAre(5, 6, 7));
  EXPECT_THAT(numbers_of(dataset->gather(Split::kValidation, first).target), ElementsAre(8, 9));
  const std::vector<int64_t> last = {3};
  EXPECT_THAT(numbers_of(dataset->gather(Split::kTrain, last).target), ElementsAre(6, 7));
  EXPECT_EQ(dataset->first_row(Split::kTest, 0), 9);
}

TEST_F(DatasetTest, StrideSpacesWindowStarts) {
  DatasetSpec spec = store(make_table({counted(20, 1)}));
  spec.split = SplitFractions{1, 0, 0};
  spec.stride = 4;
  const auto dataset = Dataset::open(spec);
  EXPECT_EQ(dataset->windows(Split::kTrain), 4);  // 0, 4, 8, 12
  EXPECT_EQ(dataset->first_row(Split::kTrain, 3), 12);
}

TEST_F(DatasetTest, NormaliserSeesTrainingRowsOnly) {
  auto rows = counted(20, 2);
  for (size_t row = 14; row < 20; ++row) rows[row][0] += 1000;
  DatasetSpec spec = store(make_table({rows}));
  spec.inputs = {"a", "b"};
  spec.normalize = "standard";
  const auto dataset = Dataset::open(spec);  // train is rows 0 to 13
  EXPECT_DOUBLE_EQ(dataset->normalizer().shift[0], 6.5);
  EXPECT_DOUBLE_EQ(dataset->normalizer().scale[0], std::sqrt((14.0 * 14 - 1) / 12));
  const std::vector<int64_t> first = {0};
  const at::Tensor past = dataset->gather(Split::kTrain, first).past;
  EXPECT_FLOAT_EQ(past[0][2][0].item<float>(),
                  static_cast<float>((2 - 6.5) / dataset->normalizer().scale[0]));

  rows[19][0] = -5;
  spec = store(make_table({rows}));
  spec.inputs = {"a", "b"};
  spec.normalize = "standard";
  EXPECT_EQ(Dataset::open(spec)->normalizer().shift, dataset->normalizer().shift);
  EXPECT_EQ(Dataset::open(spec)->normalizer().scale, dataset->normalizer().scale);
}

TEST_F(DatasetTest, AGivenNormaliserIsUsedAndNeedsNoTrainingPart) {
  DatasetSpec spec = store(make_table({counted(6, 1)}));
  Normalizer given;
  given.kind = "standard";
  given.columns = {"a"};
  given.shift = {1};
  given.scale = {2};
  spec.normalizer = given;
  spec.split = SplitFractions{0, 0, 1};
  const auto dataset = Dataset::open(spec);
  const std::vector<int64_t> first = {0};
  EXPECT_THAT(numbers_of(dataset->gather(Split::kTest, first).past), ElementsAre(-0.5, 0, 0.5));
  spec.normalizer->columns = {"other"};
  EXPECT_THAT(message_of<DataError>([&] { Dataset::open(spec); }), HasSubstr("'a'"));
}

TEST_F(DatasetTest, ExactlyOneWindowFits) {
  DatasetSpec spec = store(make_table({counted(5, 1)}));
  spec.split = SplitFractions{1, 0, 0};
  EXPECT_EQ(Dataset::open(spec)->windows(Split::kTrain), 1);
}

TEST_F(DatasetTest, FilledTargetsAreNotObserved) {
  auto rows = counted(20, 1);
  rows[3][0] = kNaN;
  DatasetSpec spec = store(make_table({rows}));
  spec.missing = MissingPolicy::kInterpolate;
  const auto dataset = Dataset::open(spec);
  const std::vector<int64_t> windows = {0, 2};
  const Batch batch = dataset->gather(Split::kTrain, windows);
  ASSERT_TRUE(batch.observed.defined());
  EXPECT_TRUE(at::equal(batch.observed.flatten(), at::tensor({0, 1, 1, 1}).to(at::kBool)));
  EXPECT_FLOAT_EQ(batch.target[0][0][0].item<float>(), 3);
  EXPECT_FALSE(dataset->gather(Split::kTest, windows).observed.defined());
  EXPECT_FALSE(dataset->gather(Split::kTrain, windows, false).observed.defined());
  EXPECT_THAT(dataset->notes(), Contains(HasSubstr("a 1")));
}

TEST_F(DatasetTest, DropLeavesOutWindowsThatTouchAHole) {
  auto rows = counted(20, 2);
  rows[8][1] = kNaN;
  DatasetSpec spec = store(make_table({rows}));
  spec.inputs = {"a", "b"};
  spec.split = SplitFractions{1, 0, 0};
  spec.missing = MissingPolicy::kDrop;
  const auto dataset = Dataset::open(spec);
  // b is an input only: starts 6, 7 and 8 look back at row 8.
  EXPECT_EQ(dataset->windows(Split::kTrain), 16 - 3);
  EXPECT_EQ(dataset->first_row(Split::kTrain, 5), 5);
  EXPECT_EQ(dataset->first_row(Split::kTrain, 6), 9);
  for (int64_t window = 0; window < 13; ++window) {
    const std::vector<int64_t> one = {window};
    const Batch batch = dataset->gather(Split::kTrain, one);
    EXPECT_TRUE(at::isfinite(batch.past).all().item<bool>());
    EXPECT_TRUE(at::isfinite(batch.target).all().item<bool>());
    EXPECT_FALSE(batch.observed.defined());
  }
  spec.targets = {"b"};
  EXPECT_EQ(Dataset::open(spec)->windows(Split::kTrain), 16 - 5);
}

TEST_F(DatasetTest, FingerprintFollowsContentNotNames) {
  const SeriesTable table = make_table({counted(20, 2)});
  DatasetSpec spec = store(table);
  spec.normalize = "standard";
  const uint64_t fingerprint = Dataset::open(spec)->fingerprint();
  DatasetSpec renamed = spec;
  renamed.paths = store(table, "renamed.h5").paths;
  EXPECT_EQ(Dataset::open(renamed)->fingerprint(), fingerprint);
  renamed.normalize = "none";
  EXPECT_EQ(Dataset::open(renamed)->fingerprint(), fingerprint);
}

TEST_F(DatasetTest, ColumnOrderOfTheFileDoesNotMatter) {
  SeriesTable table = make_table({counted(20, 2)});
  DatasetSpec spec = store(table);
  spec.inputs = {"a", "b"};
  const uint64_t fingerprint = Dataset::open(spec)->fingerprint();
  table.columns = {"b", "a"};
  table.values = table.values.flip(1).contiguous();
  DatasetSpec swapped = store(table);
  swapped.inputs = {"a", "b"};
  EXPECT_EQ(Dataset::open(swapped)->fingerprint(), fingerprint);
}

}  // namespace
}  // namespace longship::data
