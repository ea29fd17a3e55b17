#include "data/series_assembly.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "data/calendar.h"
#include "data/error.h"
#include "test_files.h"

namespace longship::data {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsNan;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

struct Row {
  int64_t time = 0;  // seconds
  float value = 0;
  int32_t series = 0;
  uint64_t other_hash = 0;
};

// Rows of one column of the series "x" and "y", at the lines 2, 3, ... of f.csv.
CsvRows rows_of(const std::vector<Row>& list) {
  CsvRows rows;
  rows.columns = {"a"};
  rows.files = {"f.csv"};
  rows.file_begin = {0};
  rows.missing = {0};
  rows.infinite = {0};
  rows.series = {"x"};
  for (const Row& row : list) {
    rows.values.push_back(row.value);
    rows.time.push_back(row.time * kSecondNs);
    rows.series_of.push_back(row.series);
    rows.other_hash.push_back(row.other_hash);
    rows.line.push_back(static_cast<uint32_t>(rows.line.size()) + 2);
    if (row.series == 1) rows.series = {"x", "y"};
  }
  return rows;
}

std::vector<Row> at_seconds(const std::vector<int64_t>& times) {
  std::vector<Row> rows;
  for (const int64_t time : times) rows.push_back({time, static_cast<float>(time)});
  return rows;
}

class SeriesAssemblyTest : public ::testing::Test {
 protected:
  SeriesTable assemble(CsvRows rows) {
    report_ = {};
    return assemble_series(std::move(rows), false, report_);
  }
  SeriesTable take(const std::vector<Row>& rows) { return assemble(rows_of(rows)); }
  // Why strict import refuses the rows.
  std::string strict(const std::vector<Row>& rows) {
    return message_of<DataError>([&] { assemble_series(rows_of(rows), true, report_); });
  }
  CsvImportReport report_;
};

TEST_F(SeriesAssemblyTest, RowsAreSortedByTimeAndTheCountSaid) {
  const std::vector<Row> rows = at_seconds({2, 0, 1, 3});
  const SeriesTable table = take(rows);
  EXPECT_THAT(numbers_of(table.values), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(table.time[1], kSecondNs);
  EXPECT_EQ(report_.rows_moved, 3);
  EXPECT_EQ(report_.step_ns, kSecondNs);
  EXPECT_THAT(table.notes, ElementsAre(HasSubstr("3 moved")));
  EXPECT_THAT(strict(rows), HasSubstr("f.csv:3: the time 1970-01-01T00:00:00Z comes before"));
}

TEST_F(SeriesAssemblyTest, SeriesThatTakeTurnsAreInOrder) {
  const SeriesTable table = take({{0, 1, 1}, {0, 2, 0}, {1, 3, 1}, {1, 4, 0}, {2, 5, 1}});
  EXPECT_EQ(report_.rows_moved, 0);
  EXPECT_THAT(table.series, ElementsAre("x", "y"));
  EXPECT_THAT(table.offsets, ElementsAre(0, 2, 5));
  EXPECT_THAT(numbers_of(table.values), ElementsAre(2, 4, 1, 3, 5));
}

TEST_F(SeriesAssemblyTest, ExactCopiesAreDropped) {
  const std::vector<Row> rows = {{0, 1}, {1, kNaN}, {0, 1}, {1, kNaN}, {2, 3}};
  const SeriesTable table = take(rows);
  EXPECT_THAT(numbers_of(table.values), ElementsAre(1, IsNan(), 3));
  EXPECT_EQ(report_.rows_repeated, 2);
  EXPECT_THAT(table.notes, Contains("2 exact copies of rows dropped"));
  EXPECT_THAT(strict({{0, 1}, {0, 1}}), HasSubstr("f.csv:3 repeats f.csv:2"));
}

TEST_F(SeriesAssemblyTest, OneTimeWithTwoValuesIsRefusedWithBothPlaces) {
  EXPECT_THAT(message_of<DataError>([&] {
                take({{0, 1}, {1, 2}, {1, 3}});
              }),
              AllOf(HasSubstr("f.csv:3 and f.csv:4 have the same time, 1970-01-01T00:00:01Z"),
                    HasSubstr("series 'x'"), HasSubstr("give --series-column")));
  // Equal numbers beside different texts are no copies.
  CsvRows stores = rows_of({{0, 1, 0, 7}, {0, 1, 0, 8}});
  stores.other_columns = {"store"};
  EXPECT_THAT(message_of<DataError>([&] { assemble(stores); }),
              HasSubstr("give --series-column (columns that were left out: store)"));
  // A column with the time of day tells no series apart.
  stores.other_columns = {"Time", "store"};
  stores.clock_columns = {"Time"};
  report_.time_column = "Date";
  const std::string message =
      message_of<DataError>([&] { assemble_series(stores, false, report_); });
  EXPECT_THAT(message, HasSubstr("the time of day seems to stand in column 'Time': join 'Date' and "
                                 "it into one column before the import"));
  EXPECT_THAT(message, ::testing::Not(HasSubstr("--series-column")));
  CsvRows hours = rows_of({{0, 1}, {0, 2}});
  hours.columns = {"Hour"};
  EXPECT_THAT(message_of<DataError>([&] { assemble(hours); }),
              HasSubstr("stand in column 'Hour': join the date and it"));
  report_ = {};
  report_.series_column = "store";
  EXPECT_THAT(message_of<DataError>([&] {
                assemble_series(rows_of({{0, 1}, {0, 2}}), false, report_);
              }),
              HasSubstr("; remove one of the rows"));
}

TEST_F(SeriesAssemblyTest, EqualTimesOfTwoSeriesAreNoConflict) {
  EXPECT_EQ(take({{0, 1, 0}, {0, 2, 1}, {1, 3, 0}, {1, 4, 1}}).rows(), 4);
}

TEST_F(SeriesAssemblyTest, HolesOfARegularGridAreFilled) {
  const SeriesTable table = take(at_seconds({0, 2, 8, 10}));
  EXPECT_EQ(report_.step_ns, 2 * kSecondNs);
  EXPECT_EQ(report_.hole_count, 1);
  EXPECT_EQ(report_.hole_rows, 2);
  EXPECT_TRUE(report_.holes_filled);
  EXPECT_THAT(numbers_of(table.values), ElementsAre(0, 2, IsNan(), IsNan(), 8, 10));
  EXPECT_THAT(table.time, ElementsAre(0, 2 * kSecondNs, 4 * kSecondNs, 6 * kSecondNs, 8 * kSecondNs,
                                      10 * kSecondNs));
  EXPECT_THAT(table.notes, ElementsAre(HasSubstr("2 after 1970-01-01T00:00:02Z in 'x'")));
  EXPECT_THAT(strict(at_seconds({0, 2, 8, 10})), HasSubstr("1 holes of together 2 rows"));
}

TEST_F(SeriesAssemblyTest, EachSeriesHasItsOwnStartAndEnd) {
  const SeriesTable table =
      take({{0, 1, 0}, {2, 2, 0}, {4, 3, 0}, {101, 4, 1}, {103, 5, 1}, {107, 6, 1}});
  EXPECT_THAT(table.offsets, ElementsAre(0, 3, 7));
  EXPECT_THAT(numbers_of(table.values), ElementsAre(1, 2, 3, 4, 5, IsNan(), 6));
  ASSERT_EQ(report_.first_holes.size(), 1U);
  EXPECT_EQ(report_.first_holes[0].series, "y");
  EXPECT_EQ(report_.first_holes[0].after, 103 * kSecondNs);
  EXPECT_EQ(report_.first_holes[0].rows, 1);
}

TEST_F(SeriesAssemblyTest, NoMoreRowsAreMadeUpThanThereAre) {
  EXPECT_EQ(take(at_seconds({0, 1, 2, 7})).rows(), 8);  // 4 there, 4 filled
  EXPECT_TRUE(report_.holes_filled);
  const SeriesTable table = take(at_seconds({0, 1, 2, 8}));  // 4 there, 5 would be filled
  EXPECT_FALSE(report_.holes_filled);
  EXPECT_EQ(table.rows(), 4);
  EXPECT_EQ(report_.hole_rows, 5);
  EXPECT_EQ(report_.step_ns, 0);
  EXPECT_THAT(table.notes, ElementsAre(HasSubstr("not filled")));
  EXPECT_THAT(strict(at_seconds({0, 1, 2, 8})), HasSubstr("1 holes of together 5 rows"));
}

TEST_F(SeriesAssemblyTest, TheFirstTenHolesAreListed) {
  std::vector<int64_t> times;
  for (int64_t i = 0; i < 13; ++i) {
    times.push_back(10 * i);
    for (int64_t within = 1; within < 9; ++within) times.push_back(10 * i + within);
  }
  const SeriesTable table = take(at_seconds(times));
  EXPECT_EQ(report_.hole_count, 12);
  EXPECT_EQ(report_.hole_rows, 12);
  EXPECT_EQ(report_.first_holes.size(), 10U);
  EXPECT_THAT(table.notes, ElementsAre(AllOf(HasSubstr("12 holes"), HasSubstr("and 2 more"))));
}

TEST_F(SeriesAssemblyTest, OfEquallyFrequentStepsTheSmallerIsTheGrid) {
  take(at_seconds({0, 4, 6, 10, 12}));
  EXPECT_EQ(report_.step_ns, 2 * kSecondNs);
  EXPECT_EQ(report_.hole_rows, 2);
}

TEST_F(SeriesAssemblyTest, MonthsAreIrregularButKnown) {
  std::vector<Row> rows;
  for (const int64_t month : {1, 2, 5, 6}) {
    rows.push_back({*to_nanoseconds({1962, month, 15}) / kSecondNs, static_cast<float>(month)});
  }
  const SeriesTable table = take(rows);
  EXPECT_TRUE(report_.monthly);
  EXPECT_EQ(report_.step_ns, 0);
  EXPECT_EQ(report_.hole_count, 1);
  EXPECT_EQ(report_.hole_rows, 2);
  EXPECT_EQ(table.rows(), 4);
  EXPECT_THAT(table.notes, ElementsAre(HasSubstr("calendar month"), HasSubstr("not filled: 1")));
  EXPECT_THAT(strict(rows), HasSubstr("2 after 1962-02-15"));
}

TEST_F(SeriesAssemblyTest, IrregularStepsAreSaidOrRefused) {
  const std::vector<Row> rows = at_seconds({0, 60, 90, 150});
  const SeriesTable table = take(rows);
  EXPECT_EQ(report_.step_ns, 0);
  EXPECT_FALSE(report_.monthly);
  EXPECT_EQ(report_.hole_count, 0);
  EXPECT_THAT(report_.first_holes, IsEmpty());
  EXPECT_THAT(table.notes, ElementsAre(AllOf(HasSubstr("varies"), HasSubstr("f.csv:4"))));
  EXPECT_THAT(strict(rows), AllOf(HasSubstr("varies"), HasSubstr("f.csv:4")));
}

TEST_F(SeriesAssemblyTest, WithoutTimeRowsStayInTheOrderOfTheFile) {
  CsvRows rows = rows_of({{5, 1}, {3, 2}, {3, 2}});
  rows.time.clear();
  rows.missing = {4};
  rows.infinite = {2};
  const SeriesTable table = assemble(rows);
  EXPECT_THAT(numbers_of(table.values), ElementsAre(1, 2, 2));
  EXPECT_THAT(table.time, IsEmpty());
  EXPECT_THAT(table.notes, IsEmpty());
  EXPECT_THAT(report_.missing, ElementsAre(4));
  EXPECT_THAT(report_.infinite, ElementsAre(2));
}

TEST_F(SeriesAssemblyTest, OneRowHasNoStep) {
  EXPECT_EQ(take(at_seconds({5})).rows(), 1);
  EXPECT_EQ(report_.step_ns, 0);
  EXPECT_EQ(strict(at_seconds({5})), "(nothing was thrown)");
}

}  // namespace
}  // namespace longship::data
