#include "data/dataset_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "data/error.h"
#include "stored_series.h"

namespace longship::data {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

class DatasetBuilderTest : public StoredSeriesTest {
 protected:
  static std::string refusal(const DatasetSpec& spec) {
    return message_of<DataError>([&] { build_dataset(spec); });
  }
  static int64_t windows(const DatasetParts& parts, Split split) {
    return parts.windows[static_cast<size_t>(split)].size();
  }
};

TEST_F(DatasetBuilderTest, KeepsInputsInOrderThenTheOtherTargets) {
  DatasetSpec spec = store(make_table({counted(20, 4)}));
  spec.inputs = {"c", "a"};
  spec.targets = {"d", "a"};
  const DatasetParts parts = build_dataset(spec);
  EXPECT_THAT(parts.table.columns, ElementsAre("c", "a", "d"));
  EXPECT_THAT(parts.input_columns, ElementsAre(0, 1));
  EXPECT_THAT(parts.target_columns, ElementsAre(2, 1));
  EXPECT_THAT(numbers_of(parts.table.values.narrow(0, 19, 1)), ElementsAre(219, 19, 319));
}

TEST_F(DatasetBuilderTest, CountsWindowsOfEachPart) {
  // Rows 0 to 13, 14 and 15, 16 to 19.
  const DatasetParts parts = build_dataset(store(make_table({counted(20, 1)})));
  EXPECT_EQ(windows(parts, Split::kTrain), 10);
  EXPECT_EQ(windows(parts, Split::kValidation), 1);
  EXPECT_EQ(windows(parts, Split::kTest), 3);
  EXPECT_EQ(windows(parts, Split::kAll), 16);
  EXPECT_THAT(parts.table.notes, IsEmpty());
}

TEST_F(DatasetBuilderTest, APartWithoutAWindowIsSaid) {
  DatasetSpec spec = store(make_table({counted(20, 1)}));
  spec.split = SplitRows{{{0, 12}, {12, 13}, {13, 20}}};
  const DatasetParts parts = build_dataset(spec);
  EXPECT_EQ(windows(parts, Split::kValidation), 0);
  EXPECT_THAT(parts.table.notes, ElementsAre(HasSubstr("the validation part has no window: its "
                                                       "rows are fewer than the horizon, 2")));
  // Not where nobody asked for one.
  spec.split = SplitRows{{{0, 12}, {12, 12}, {12, 20}}};
  EXPECT_THAT(build_dataset(spec).table.notes, IsEmpty());
}

TEST_F(DatasetBuilderTest, RowRangesBehindASeriesEndAreSaid) {
  DatasetSpec spec = store(make_table({counted(30, 1), counted(20, 1)}));
  spec.split = SplitRows{{{0, 12}, {12, 18}, {18, 24}}};
  EXPECT_THAT(build_dataset(spec).table.notes,
              ElementsAre(AllOf(HasSubstr("go to row 24, and 1 of 2 series end before"),
                                HasSubstr("'1', has 20 rows"))));
}

TEST_F(DatasetBuilderTest, ShortSeriesAreSkippedWithACount) {
  DatasetSpec spec = store(make_table({counted(4, 1), counted(30, 1), counted(1, 1)}, 10));
  const DatasetParts parts = build_dataset(spec);
  EXPECT_THAT(parts.table.series, ElementsAre("1"));
  EXPECT_THAT(parts.table.offsets, ElementsAre(0, 30));
  EXPECT_EQ(parts.table.time.size(), 30U);
  EXPECT_EQ(parts.table.time.back(), 290);
  EXPECT_THAT(parts.table.files, ElementsAre(spec.paths.front()));
  EXPECT_THAT(parts.table.notes,
              ElementsAre(AllOf(HasSubstr("2 of 3 series are left out"), HasSubstr("0 (4), 2 (1)"),
                                HasSubstr("5 rows (window 3 + horizon 2)"))));
  spec = store(make_table({counted(4, 1), counted(3, 1)}));
  EXPECT_THAT(refusal(spec), AllOf(HasSubstr("'0', has 4 rows"), HasSubstr("needs 5 rows")));
}

TEST_F(DatasetBuilderTest, NoTrainingWindowIsAnErrorWithTheNumbers) {
  DatasetSpec spec = store(make_table({counted(6, 1)}));
  EXPECT_THAT(refusal(spec), AllOf(HasSubstr("no training window"), HasSubstr("has 4 rows"),
                                   HasSubstr("needs 5 rows"), HasSubstr("stride 1")));
  auto rows = counted(20, 1);
  for (size_t row = 2; row < 20; row += 3) rows[row][0] = kNaN;
  spec = store(make_table({rows}));
  spec.missing = MissingPolicy::kDrop;
  EXPECT_THAT(refusal(spec), AllOf(HasSubstr("the longest training part has 14 rows"),
                                   HasSubstr("every window touches a missing value")));
}

TEST_F(DatasetBuilderTest, MissingIsRefusedByDefaultWithPlaceAndCounts) {
  auto rows = counted(20, 2);
  rows[7][1] = kNaN;
  rows[9][1] = std::numeric_limits<float>::infinity();
  DatasetSpec spec = store(make_table({counted(20, 2), rows}));
  spec.inputs = {"a", "b"};
  EXPECT_THAT(refusal(spec),
              AllOf(HasSubstr("data.h5: series '1', row 7, column 'b'"), HasSubstr("b 2")));
  spec.inputs = {"a"};
  EXPECT_EQ(build_dataset(spec).table.series_count(), 2);  // b is not used
}

TEST_F(DatasetBuilderTest, FilledTargetsAreMarkedByRowAndPart) {
  auto rows = counted(20, 2);
  rows[2][0] = kNaN;   // train
  rows[15][0] = kNaN;  // validation
  rows[17][1] = kNaN;  // test, but no target
  DatasetSpec spec = store(make_table({rows}));
  spec.inputs = {"a", "b"};
  spec.missing = MissingPolicy::kForwardFill;
  const DatasetParts parts = build_dataset(spec);
  EXPECT_THAT(parts.filled_targets, ElementsAre(true, true, false, true));
  ASSERT_EQ(parts.target_filled.size(), 20U);
  EXPECT_EQ(std::count(parts.target_filled.begin(), parts.target_filled.end(), 1), 2);
  EXPECT_EQ(parts.target_filled[2], 1);
  EXPECT_EQ(parts.target_filled[15], 1);
  EXPECT_THAT(numbers_of(parts.table.values.narrow(0, 17, 1)), ElementsAre(17, 116));
  EXPECT_THAT(parts.table.notes,
              ElementsAre(HasSubstr("filled by the value before, per column: a 2, b 1")));
  // Nothing to mark: only an input was filled.
  spec.targets = {"a"};
  spec.inputs = {"b"};
  rows = counted(20, 2);
  rows[17][1] = kNaN;
  write_series_file(spec.paths.front(), make_table({rows}), true);
  EXPECT_THAT(build_dataset(spec).target_filled, IsEmpty());
}

TEST_F(DatasetBuilderTest, SeriesWithoutAnyValueOfAColumnAreLeftOut) {
  auto empty = counted(20, 1);
  for (auto& row : empty) row[0] = kNaN;
  DatasetSpec spec = store(make_table({empty, counted(20, 1)}));
  spec.missing = MissingPolicy::kForwardFill;
  const DatasetParts parts = build_dataset(spec);
  EXPECT_THAT(parts.table.series, ElementsAre("1"));
  EXPECT_THAT(parts.table.notes, Contains(HasSubstr("0 (a)")));
  spec = store(make_table({empty}));
  spec.missing = MissingPolicy::kInterpolate;
  EXPECT_THAT(refusal(spec), HasSubstr("no series has a value of every used column"));
}

TEST_F(DatasetBuilderTest, ASeriesFirstMeasuredAfterItsTrainingPartIsNotFilledBackIntoIt) {
  auto late = counted(20, 1);
  for (size_t row = 0; row < 14; ++row) late[row][0] = kNaN;  // the training part
  auto early = counted(20, 1);
  for (size_t row = 0; row < 13; ++row) early[row][0] = kNaN;
  DatasetSpec spec = store(make_table({late, early}));
  for (const MissingPolicy policy : {MissingPolicy::kForwardFill, MissingPolicy::kInterpolate}) {
    spec.missing = policy;
    const DatasetParts parts = build_dataset(spec);
    EXPECT_THAT(parts.table.series, ElementsAre("1"));
    EXPECT_THAT(parts.table.notes,
                Contains(HasSubstr("1 of 2 series are left out, without a value of a used column "
                                   "by the end of its training part: 0 (a, first in row 14)")));
  }
  // Nothing is trained on a series without a training part, or where a normaliser is given.
  Normalizer given;
  given.columns = {"a"};
  given.shift = {0};
  given.scale = {1};
  spec.normalizer = given;
  EXPECT_EQ(build_dataset(spec).table.series_count(), 2);
  spec = store(make_table({late}));
  spec.missing = MissingPolicy::kInterpolate;
  EXPECT_THAT(refusal(spec), AllOf(HasSubstr("by the end of its training part"),
                                   HasSubstr("0 (a, first in row 14)"), HasSubstr("data.split")));
}

TEST_F(DatasetBuilderTest, StepsThatVaryAreSaid) {
  SeriesTable table = make_table({counted(20, 1)}, 10);
  EXPECT_EQ(build_dataset(store(table)).step_ns, 10);
  table.time.back() += 1;
  const DatasetParts parts = build_dataset(store(table));
  EXPECT_EQ(parts.step_ns, 0);
  EXPECT_THAT(parts.table.notes, ElementsAre(HasSubstr("the time between rows varies")));
}

TEST_F(DatasetBuilderTest, RowsOutOfTimeOrderAreRefused) {
  SeriesTable table = make_table({counted(20, 1)}, 10);
  std::swap(table.time[4], table.time[5]);
  EXPECT_THAT(refusal(store(table)),
              AllOf(HasSubstr("data.h5: series '0', row 5"), HasSubstr("does not come after"),
                    HasSubstr("write the rows in order of time"), Not(HasSubstr("import"))));
  table.time[5] = table.time[4] = 40;  // equal is no order either
  EXPECT_THAT(refusal(store(table)), HasSubstr("series '0', row 5"));
}

TEST_F(DatasetBuilderTest, ColumnsConstantInTheTrainingPartAreCentredAndSaid) {
  auto rows = counted(20, 2);
  for (size_t row = 0; row < 14; ++row) rows[row][1] = 7;
  DatasetSpec spec = store(make_table({rows}));
  spec.inputs = {"a", "b"};
  spec.normalize = "minmax";
  const DatasetParts parts = build_dataset(spec);
  EXPECT_THAT(parts.table.notes, ElementsAre(HasSubstr("only centred, not scaled: b")));
  EXPECT_THAT(numbers_of(parts.table.values.select(1, 1).narrow(0, 0, 14)), Each(0.0F));
  EXPECT_FLOAT_EQ(numbers_of(parts.table.values)[2 * 13], 1);
  // Nothing is centred without a normaliser, nor need there be a value to fit one to.
  spec.normalize = "none";
  EXPECT_THAT(build_dataset(spec).table.notes, IsEmpty());
}

TEST_F(DatasetBuilderTest, RefusesWrongSpecsByKey) {
  const DatasetSpec spec = store(make_table({counted(20, 2)}));
  const auto refusal_with = [&](auto change) {
    DatasetSpec other = spec;
    change(other);
    return refusal(other);
  };
  EXPECT_THAT(refusal_with([](DatasetSpec& s) { s.inputs = {"A"}; }), HasSubstr("no column 'A'"));
  EXPECT_THAT(refusal_with([](DatasetSpec& s) {
                s.inputs = {"a", "a"};
              }),
              HasSubstr("data.inputs names 'a' twice"));
  EXPECT_THAT(refusal_with([](DatasetSpec& s) { s.targets = {}; }), HasSubstr("data.targets"));
  EXPECT_THAT(refusal_with([](DatasetSpec& s) { s.window = 0; }), HasSubstr("data.window is 0"));
  EXPECT_THAT(refusal_with([](DatasetSpec& s) { s.horizon = -1; }),
              HasSubstr("data.horizon is -1"));
  EXPECT_THAT(refusal_with([](DatasetSpec& s) { s.stride = 0; }), HasSubstr("data.stride is 0"));
  EXPECT_THAT(refusal_with([](DatasetSpec& s) { s.normalize = "robust"; }), HasSubstr("'robust'"));
  EXPECT_THAT(refusal_with([](DatasetSpec& s) {
                s.split = SplitDates{0, 1};
              }),
              HasSubstr("no time"));
}

}  // namespace
}  // namespace longship::data
