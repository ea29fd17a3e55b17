#include "data/csv_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/error.h"
#include "test_files.h"

namespace longship::data {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsNan;
using ::testing::Not;

class CsvRowsTest : public ::testing::Test {
 protected:
  // The rows of the files a.csv, b.csv, ...
  CsvRows collect_files(const std::vector<std::string>& texts) {
    std::vector<std::string> paths;
    for (const std::string& text : texts) {
      const std::string stem(1, static_cast<char>('a' + paths.size()));
      paths.push_back(folder_.write(stem + ".csv", text));
    }
    report_ = {};
    notes_.clear();
    CsvCollector collector(paths, options_);
    for (const std::string& path : paths) collector.add_file(path);
    return collector.take(report_, notes_);
  }
  CsvRows collect(const std::string& text) { return collect_files({text}); }
  std::string refusal_of_files(const std::vector<std::string>& texts) {
    return message_of<DataError>([&] { collect_files(texts); });
  }
  std::string refusal(const std::string& text) { return refusal_of_files({text}); }

  TemporaryFolder folder_;
  CsvImportOptions options_;
  CsvImportReport report_;
  std::vector<std::string> notes_;
};

TEST_F(CsvRowsTest, EachRowKnowsItsFileAndLine) {
  const CsvRows rows = collect_files({"a,b\n1,2\n\n3,4\n", "b,a\n6,5\n"});
  EXPECT_THAT(rows.columns, ElementsAre("a", "b"));
  EXPECT_THAT(rows.values, ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(rows.rows(), 3);
  EXPECT_EQ(report_.rows_read, 3);
  EXPECT_EQ(rows.place(0), folder_.path("a.csv") + ":2");
  EXPECT_EQ(rows.place(1), folder_.path("a.csv") + ":4");
  EXPECT_EQ(rows.place(2), folder_.path("b.csv") + ":2");
  EXPECT_THAT(rows.series, ElementsAre("a", "b"));
  EXPECT_THAT(rows.series_of, ElementsAre(0, 0, 1));
}

TEST_F(CsvRowsTest, FilesOfOneStemAreToldApartByTheirPaths) {
  const std::string first = folder_.write("x/f.csv", "a\n1\n");
  const std::string second = folder_.write("y/f.csv", "a\n2\n");
  CsvCollector collector({first, second}, options_);
  collector.add_file(first);
  collector.add_file(second);
  EXPECT_THAT(collector.take(report_, notes_).series, ElementsAre("f", second));
}

TEST_F(CsvRowsTest, LaterFilesMustBeWrittenAlike) {
  EXPECT_THAT(refusal_of_files({"a,b\n1,2\n", "a;b\n1;2\n"}),
              AllOf(HasSubstr("b.csv is written with another delimiter or decimal mark than"),
                    HasSubstr("a.csv")));
  EXPECT_THAT(refusal_of_files({"a,b\n1,2\n", "a,c\n1,2\n"}), HasSubstr("b.csv has no column 'b'"));
}

TEST_F(CsvRowsTest, TheSeriesColumnTellsRowsApart) {
  options_.series_column = "store";
  const CsvRows rows = collect("store,a\ny,1\nx,2\ny,3\n");
  EXPECT_THAT(rows.series, ElementsAre("y", "x"));
  EXPECT_THAT(rows.series_of, ElementsAre(0, 1, 0));
  EXPECT_THAT(rows.columns, ElementsAre("a"));
  EXPECT_THAT(refusal("store,a\ny,1\n,2\n"),
              HasSubstr("a.csv:3: the series column 'store' is empty"));
}

TEST_F(CsvRowsTest, TextColumnsAreLeftOutAndHashed) {
  const CsvRows rows = collect("t,a\nrain,1\nrain,1\nsun,1\n");
  EXPECT_THAT(rows.columns, ElementsAre("a"));
  EXPECT_THAT(rows.other_columns, ElementsAre("t"));
  EXPECT_EQ(rows.other_hash[0], rows.other_hash[1]);
  EXPECT_NE(rows.other_hash[0], rows.other_hash[2]);
  EXPECT_THAT(notes_,
              Contains(AllOf(HasSubstr("they hold text: 't' ('rain' at"), HasSubstr("a.csv:2"))));
  // The same words in other columns are another row.
  const CsvRows swapped = collect("t,u,a\nx,y,1\ny,x,1\n");
  EXPECT_NE(swapped.other_hash[0], swapped.other_hash[1]);
}

TEST_F(CsvRowsTest, ANamedTextColumnIsAnErrorWithTheLine) {
  options_.columns = {"a", "weather"};
  EXPECT_THAT(refusal("a,weather\n1,1\n2,rain\n"),
              AllOf(HasSubstr("a.csv:3"), HasSubstr("'weather'"), HasSubstr("'rain'")));
  EXPECT_THAT(refusal("a,weather\n1,rain\n"), HasSubstr("a.csv:2"));
  options_.columns = {"b", "a"};
  const CsvRows rows = collect("a,b,c\n1,2,3\n");
  EXPECT_THAT(rows.columns, ElementsAre("b", "a"));
  EXPECT_THAT(rows.values, ElementsAre(2, 1));
  options_.columns = {"d"};
  EXPECT_THAT(refusal("a,b,c\n1,2,3\n"), HasSubstr("'d'"));
}

TEST_F(CsvRowsTest, ColumnsWithoutAnyValueAreLeftOutUnlessNamed) {
  EXPECT_THAT(collect("a,b\n1,\n2,NA\n").columns, ElementsAre("a"));
  EXPECT_THAT(notes_, Contains("left out, because they hold no value: 'b'"));
  options_.columns = {"b"};
  EXPECT_THAT(collect("a,b\n1,\n2,NA\n").values, ElementsAre(IsNan(), IsNan()));
  EXPECT_THAT(report_.time_column, IsEmpty());
}

TEST_F(CsvRowsTest, RepeatedNamesAreLeftOutWithTheirPositions) {
  EXPECT_THAT(collect("id,age,id\n1,30,1\n2,26,2\n").columns, ElementsAre("age"));
  EXPECT_THAT(notes_, Contains(HasSubstr("'id' at position 1, 'id' at position 3")));
}

TEST_F(CsvRowsTest, NoColumnOfNumbersIsAnErrorThatNamesTheTexts) {
  EXPECT_THAT(refusal("a,b\nx,y\n"),
              AllOf(HasSubstr("a.csv has no column of numbers: 'a' ('x' at"), HasSubstr("'b'")));
}

TEST_F(CsvRowsTest, ABadCellAmongNumbersIsNeverDropped) {
  EXPECT_THAT(refusal("a,b\n1,2\n95%,3\n"),
              AllOf(HasSubstr("a.csv:3"), HasSubstr("column 'a'"), HasSubstr("95%")));
  EXPECT_THAT(refusal("a,b\n$4.00,2\n"), HasSubstr("a.csv:2"));
  EXPECT_THAT(refusal("a,b\n1,2\nX,3\n"), HasSubstr("--missing-values"));
  EXPECT_THAT(refusal("a;b\n1.299,99;4,5\n"), HasSubstr("1.299,99"));
  options_.missing_values = {"X"};
  EXPECT_THAT(collect("a,b\n1,2\nX,3\n").missing, ElementsAre(1, 0));
}

TEST_F(CsvRowsTest, WhatFloat32DoesNotHoldIsRefusedOrSaid) {
  EXPECT_THAT(refusal("a,b\n1,1e39\n"),
              AllOf(HasSubstr("a.csv:2, column 'b': 1e39 is beyond the range of float32")));
  collect("a,b,c\n16777217,16777218,20000000.5\n");
  EXPECT_THAT(notes_, Contains("whole numbers beyond 16777216 are rounded to float32 in 'a'"));
  EXPECT_THAT(collect("a,b\n1,INF\n-inf,3\n").infinite, ElementsAre(1, 1));
}

TEST_F(CsvRowsTest, SlashDatesAreProvedByTheWholeFile) {
  const CsvRows rows = collect("t,a\n1/1/2013,1\n2/1/2013,2\n3/1/2013,3\n13/1/2013,4\n");
  EXPECT_EQ(format_time(rows.time[1]), "2013-01-02T00:00:00Z");
  EXPECT_EQ(format_time(rows.time[3]), "2013-01-13T00:00:00Z");
  EXPECT_THAT(refusal("t,a\n1/1/2013,1\n2/1/2013,2\n"), HasSubstr("cannot be told apart"));
  EXPECT_THAT(refusal("t,a\n1/13/2013,1\n13/1/2013,2\n"),
              AllOf(HasSubstr("a.csv:3"), HasSubstr("a.csv:2")));
  // A later file may bring the proof.
  const CsvRows both = collect_files({"t,a\n2/1/2013,1\n", "t,a\n13/1/2013,2\n"});
  EXPECT_EQ(format_time(both.time[0]), "2013-01-02T00:00:00Z");
  options_.time_format = "%d/%m/%Y";
  options_.time_column = "t";
  EXPECT_THAT(refusal("t,a\n1/1/2013,1\n1/13/2013,2\n"), HasSubstr("a.csv:3"));
}

TEST_F(CsvRowsTest, IntegersAreTimeOnlyWhenNamed) {
  const std::string text = "date,a\n19580329,316.1\n19580405,317.3\n";
  const CsvRows unnamed = collect(text);
  EXPECT_THAT(unnamed.columns, ElementsAre("date", "a"));
  EXPECT_THAT(unnamed.time, IsEmpty());
  EXPECT_THAT(notes_, Contains(HasSubstr("column 'date' holds numbers")));
  EXPECT_THAT(notes_, Contains(HasSubstr("rounded to float32 in 'date'")));
  options_.time_column = "date";
  EXPECT_THAT(refusal(text), AllOf(HasSubstr("a.csv:2"), HasSubstr("--time-format")));
  options_.time_format = "%Y%m%d";
  const CsvRows named = collect(text);
  EXPECT_EQ(named.time[1] - named.time[0], int64_t{7} * 86'400'000'000'000);
  EXPECT_THAT(notes_, ElementsAre("times without a zone are taken as UTC"));
}

TEST_F(CsvRowsTest, DatesWithPointsGetTheOptionsThatReadThem) {
  EXPECT_THAT(refusal("Datum;a\n31.12.2020;1\n01.01.2021;2\n"),
              AllOf(HasSubstr("a.csv:2, column 'Datum': '31.12.2020'"),
                    HasSubstr("--time-column 'Datum' and --time-format '%d.%m.%Y'")));
  const std::string clocks = "Messung;a\n31.12.2020 23:00;1\n01.01.2021 00:00;2\n";
  EXPECT_THAT(collect(clocks).columns, ElementsAre("a"));
  EXPECT_THAT(notes_, Contains(AllOf(HasSubstr("'Messung'"), HasSubstr("--time-column 'Messung'"),
                                     HasSubstr("--time-format '%d.%m.%Y %H:%M'"))));
  // A usual name is enough, also a German or French one.
  for (const char* name : {"Date", "Zeit", "Datum", "horodatage"}) {
    collect(std::string(name) + ",a\nMon 1 Jan 2020,1\n");
    EXPECT_THAT(notes_, Contains(HasSubstr("give --time-column '" + std::string(name) + "'")));
  }
  collect("city,a\nOslo,1\n");
  EXPECT_THAT(notes_, Each(Not(HasSubstr("--time-column"))));
  options_.time_column = "Messung";
  options_.time_format = "%d.%m.%Y %H:%M";
  EXPECT_EQ(format_time(collect(clocks).time[1]), "2021-01-01T00:00:00Z");
}

TEST_F(CsvRowsTest, NumbersTakenAsSecondsAreSaidAndThoseThatMayBeDatesRefused) {
  options_.time_column = "t";
  collect("t,a\n1577836800,1\n1577840400,2\n");
  EXPECT_THAT(notes_, ElementsAre("numbers in 't' are taken as seconds since 1970"));
  collect("t,a\n1577836800000,1\n");
  EXPECT_THAT(notes_, ElementsAre("numbers in 't' are taken as milliseconds since 1970"));
  EXPECT_THAT(refusal("t,a\n2020010122,1\n2020010123,2\n"),
              AllOf(HasSubstr("a.csv: every number in 't', such as 2020010122"),
                    HasSubstr("--time-format %Y%m%d%H or epoch-s")));
  // Hour 24 is none, so they are seconds.
  collect("t,a\n2020010123,1\n2020010124,2\n");
  EXPECT_THAT(notes_, ElementsAre(HasSubstr("seconds since 1970")));
  EXPECT_THAT(refusal("t,a\n20200101,1\n"), HasSubstr("--time-format '%Y%m%d'"));
  EXPECT_THAT(refusal("t,a\n202001012359,1\n"), HasSubstr("--time-format '%Y%m%d%H%M'"));
}

TEST_F(CsvRowsTest, SlashDatesWithAZoneAreTurnedInTheirOwnZone) {
  // In UTC the first is 31 December, the second 1 February.
  const CsvRows rows = collect(
      "t,a\n1/2/2020 00:30 +01:00,1\n2/2/2020 00:30 +01:00,2\n13/2/2020 00:30 +01:00,3\n"
      "3/4/2020 00:30 +01:00,4\n");
  EXPECT_EQ(format_time(rows.time[0]), "2020-01-31T23:30:00Z");
  EXPECT_EQ(format_time(rows.time[1]), "2020-02-01T23:30:00Z");
  EXPECT_EQ(format_time(rows.time[3]), "2020-04-02T23:30:00Z");
}

TEST_F(CsvRowsTest, AFileNeedsRowsWithoutAmbiguousBlankLines) {
  EXPECT_THAT(refusal("id,name\n"), HasSubstr("a.csv has a header and no rows"));
  EXPECT_THAT(refusal("a\n1\n\n2\n"), HasSubstr("a.csv:3: a blank line"));
  EXPECT_THAT(collect("a\n1\n2\n\n\n").values, ElementsAre(1, 2));
}

}  // namespace
}  // namespace longship::data
