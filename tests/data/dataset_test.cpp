#include "data/dataset.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "data/error.h"
#include "data/series_file.h"
#include "test_files.h"

namespace longship::data {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// A series whose row r holds r, 100 + r, 200 + r, ...
std::vector<std::vector<float>> counted(int64_t rows, int64_t columns) {
  std::vector<std::vector<float>> series;
  for (int64_t row = 0; row < rows; ++row) {
    std::vector<float> line;
    for (int64_t column = 0; column < columns; ++column) {
      line.push_back(static_cast<float>(row + 100 * column));
    }
    series.push_back(line);
  }
  return series;
}

class DatasetTest : public ::testing::Test {
 protected:
  DatasetSpec store(const SeriesTable& table, const std::string& name = "data.h5") {
    write_series_file(folder_.path(name), table, true);
    DatasetSpec spec;
    spec.paths = {folder_.path(name)};
    spec.inputs = {"a"};
    spec.targets = {"a"};
    spec.window = 3;
    spec.horizon = 2;
    spec.normalize = "none";
    return spec;
  }

  TemporaryFolder folder_;
};

std::vector<float> numbers(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.contiguous().flatten();
  return {flat.const_data_ptr<float>(), flat.const_data_ptr<float>() + flat.numel()};
}

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
  EXPECT_THAT(numbers(batch.past), ElementsAre(201, 1, 202, 2, 203, 3, 202, 2, 203, 3, 204, 4));
  EXPECT_THAT(numbers(batch.target), ElementsAre(304, 4, 305, 5, 305, 5, 306, 6));
  EXPECT_FALSE(batch.observed.defined());
  EXPECT_THAT(numbers(dataset->history(Split::kTrain, windows)),
              ElementsAre(301, 1, 302, 2, 303, 3, 302, 2, 303, 3, 304, 4));
  const WindowPlace place = dataset->place(Split::kTrain, 17);
  EXPECT_EQ(place.series, "1");
  EXPECT_EQ(place.row, 1);
  EXPECT_EQ(place.last_time, 3'000'000'000);
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
  EXPECT_THAT(numbers(dataset->gather(Split::kValidation, first).past), ElementsAre(5, 6, 7));
  EXPECT_THAT(numbers(dataset->gather(Split::kValidation, first).target), ElementsAre(8, 9));
  const std::vector<int64_t> last = {3};
  EXPECT_THAT(numbers(dataset->gather(Split::kTrain, last).target), ElementsAre(6, 7));
  EXPECT_EQ(dataset->place(Split::kTest, 0).row, 9);
}

TEST_F(DatasetTest, StrideSpacesWindowStarts) {
  DatasetSpec spec = store(make_table({counted(20, 1)}));
  spec.split = SplitFractions{1, 0, 0};
  spec.stride = 4;
  const auto dataset = Dataset::open(spec);
  EXPECT_EQ(dataset->windows(Split::kTrain), 4);  // 0, 4, 8, 12
  EXPECT_EQ(dataset->place(Split::kTrain, 3).row, 12);
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
  EXPECT_THAT(numbers(dataset->gather(Split::kTest, first).past), ElementsAre(-0.5, 0, 0.5));
  spec.normalizer->columns = {"other"};
  EXPECT_THAT(message_of<DataError>([&] { Dataset::open(spec); }), HasSubstr("'a'"));
}

TEST_F(DatasetTest, ShortSeriesAreSkippedWithACount) {
  DatasetSpec spec = store(make_table({counted(4, 1), counted(30, 1), counted(1, 1)}));
  const auto dataset = Dataset::open(spec);
  EXPECT_EQ(dataset->series_count(), 1);
  EXPECT_THAT(dataset->notes(), Contains(HasSubstr("2 of 3 series are left out")));

  spec = store(make_table({counted(4, 1), counted(3, 1)}));
  EXPECT_THAT(message_of<DataError>([&] { Dataset::open(spec); }),
              ::testing::AllOf(HasSubstr("'0', has 4 rows"), HasSubstr("needs 5 rows")));
}

TEST_F(DatasetTest, ExactlyOneWindowFits) {
  DatasetSpec spec = store(make_table({counted(5, 1)}));
  spec.split = SplitFractions{1, 0, 0};
  EXPECT_EQ(Dataset::open(spec)->windows(Split::kTrain), 1);
}

TEST_F(DatasetTest, NoTrainingWindowIsAnErrorWithTheNumbers) {
  DatasetSpec spec = store(make_table({counted(6, 1)}));
  EXPECT_THAT(message_of<DataError>([&] { Dataset::open(spec); }),
              ::testing::AllOf(HasSubstr("no training window"), HasSubstr("has 4 rows"),
                               HasSubstr("needs 5 rows"), HasSubstr("stride 1")));
}

TEST_F(DatasetTest, MissingIsRefusedByDefaultWithPlaceAndCounts) {
  auto rows = counted(20, 2);
  rows[7][1] = kNaN;
  rows[9][1] = std::numeric_limits<float>::infinity();
  DatasetSpec spec = store(make_table({counted(20, 2), rows}));
  spec.inputs = {"a", "b"};
  EXPECT_THAT(message_of<DataError>([&] { Dataset::open(spec); }),
              ::testing::AllOf(HasSubstr("series '1', row 7, column 'b'"), HasSubstr("b 2")));
  spec.inputs = {"a"};
  EXPECT_EQ(Dataset::open(spec)->series_count(), 2);  // b is not used
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
  EXPECT_EQ(dataset->place(Split::kTrain, 5).row, 5);
  EXPECT_EQ(dataset->place(Split::kTrain, 6).row, 9);
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

TEST_F(DatasetTest, SeriesWithoutAnyValueOfAColumnAreLeftOut) {
  auto empty = counted(20, 1);
  for (auto& row : empty) row[0] = kNaN;
  DatasetSpec spec = store(make_table({empty, counted(20, 1)}));
  spec.missing = MissingPolicy::kForwardFill;
  const auto dataset = Dataset::open(spec);
  EXPECT_EQ(dataset->series_count(), 1);
  EXPECT_THAT(dataset->notes(), Contains(HasSubstr("0 (a)")));
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

  const auto changed = [&](auto change) {
    DatasetSpec other = spec;
    change(other);
    return Dataset::open(other)->fingerprint();
  };
  EXPECT_NE(changed([](DatasetSpec& s) { s.window = 4; }), fingerprint);
  EXPECT_NE(changed([](DatasetSpec& s) { s.horizon = 1; }), fingerprint);
  EXPECT_NE(changed([](DatasetSpec& s) { s.stride = 2; }), fingerprint);
  EXPECT_NE(changed([](DatasetSpec& s) { s.inputs = {"b", "a"}; }), fingerprint);
  EXPECT_NE(changed([](DatasetSpec& s) { s.split = SplitFractions{0.8, 0.1, 0.1}; }), fingerprint);
  auto rows = counted(20, 2);
  rows[19][0] += 1;
  EXPECT_NE(Dataset::open(store(make_table({rows})))->fingerprint(), fingerprint);
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

TEST_F(DatasetTest, RefusesWrongSpecsByKey) {
  const DatasetSpec spec = store(make_table({counted(20, 2)}));
  const auto refusal = [&](auto change) {
    DatasetSpec other = spec;
    change(other);
    return message_of<DataError>([&] { Dataset::open(other); });
  };
  EXPECT_THAT(refusal([](DatasetSpec& s) { s.inputs = {"A"}; }), HasSubstr("no column 'A'"));
  EXPECT_THAT(refusal([](DatasetSpec& s) { s.inputs = {"a", "a"}; }), HasSubstr("'a' twice"));
  EXPECT_THAT(refusal([](DatasetSpec& s) { s.targets = {}; }), HasSubstr("data.targets"));
  EXPECT_THAT(refusal([](DatasetSpec& s) { s.window = 0; }), HasSubstr("data.window"));
  EXPECT_THAT(refusal([](DatasetSpec& s) { s.normalize = "robust"; }), HasSubstr("'robust'"));
  EXPECT_THAT(refusal([](DatasetSpec& s) { s.split = SplitDates{0, 1}; }), HasSubstr("no time"));
}

TEST_F(DatasetTest, RowsOutOfTimeOrderAreRefused) {
  SeriesTable table = make_table({counted(20, 1)}, 10);
  std::swap(table.time[4], table.time[5]);
  const DatasetSpec spec = store(table);
  EXPECT_THAT(message_of<DataError>([&] { Dataset::open(spec); }), HasSubstr("series '0', row 5"));
}

}  // namespace
}  // namespace longship::data
