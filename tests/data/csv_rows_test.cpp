#include "data/csv_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

TEST_F(CsvRowsTest, RepeatedNamesAreToldWithTheirPlace) {
  EXPECT_THAT(collect("id,age,id\n1,30,1\n2,26,2\n").columns, ElementsAre("age"));
  EXPECT_THAT(notes_,
              Contains(folder_.path("a.csv") +
                       ":1: the header has the name 'id' more than once, at positions 1, 3; "
                       "they are left out, give each column its own name"));
  EXPECT_EQ(refusal("time,a,a\n2020-01-01,1,2\n"),
            folder_.path("a.csv") +
                ":1: the header has the name 'a' more than once, at positions 2, 3, and no other "
                "column holds numbers; give each column its own name");
  EXPECT_THAT(refusal("time,a,time\n2020-01-01,1,2020-01-02\n"),
              HasSubstr("a.csv:1: the header has the name 'time' more than once, at positions 1, "
                        "3; give each column its own name"));
  options_.columns = {"a"};
  EXPECT_THAT(refusal("time,a,a\n2020-01-01,1,2\n"), HasSubstr("a.csv:1: the header has the name"));
}

TEST_F(CsvRowsTest, WithoutAHeaderTheFirstLineCounts) {
  options_.no_header = true;
  options_.delimiter = ';';
  const CsvRows rows = collect("2020-01-01;1,5;x\n2020-01-02;2;y\n");
  EXPECT_THAT(rows.columns, ElementsAre("c1"));
  EXPECT_THAT(rows.values, ElementsAre(1.5, 2));
  EXPECT_EQ(report_.time_column, "c0");
  EXPECT_EQ(rows.place(0), folder_.path("a.csv") + ":1");
  options_.delimiter = 0;
  options_.columns = {"c2", "c1"};
  options_.series_column = "c0";
  EXPECT_THAT(collect("1,2,3\n").values, ElementsAre(3, 2));
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
  EXPECT_THAT(refusal("t,a\n1/1/2013,1\n2/1/2013,2\n"),
              AllOf(HasSubstr("cannot be told apart"), HasSubstr("'%m/%d/%Y' or '%d/%m/%Y'")));
  EXPECT_THAT(refusal("t,a\n1/1/2013 3:05 PM,1\n"),
              HasSubstr("'%m/%d/%Y %I:%M %p' or '%d/%m/%Y %I:%M %p'"));
  EXPECT_THAT(refusal("t,a\n1/13/2013,1\n13/1/2013,2\n"),
              AllOf(HasSubstr("a.csv:3"), HasSubstr("a.csv:2")));
  // A later file may bring the proof.
  const CsvRows both = collect_files({"t,a\n2/1/2013,1\n", "t,a\n13/1/2013,2\n"});
  EXPECT_EQ(format_time(both.time[0]), "2013-01-02T00:00:00Z");
  options_.time_format = "%d/%m/%Y";
  options_.time_column = "t";
  EXPECT_THAT(refusal("t,a\n1/1/2013,1\n1/13/2013,2\n"), HasSubstr("a.csv:3"));
}

TEST_F(CsvRowsTest, DatesWithoutMarksAreTimeAndSaid) {
  const CsvRows dates = collect("date,a\n19580329,316.1\n19580405,317.3\n");
  EXPECT_THAT(dates.columns, ElementsAre("a"));
  EXPECT_EQ(dates.time[1] - dates.time[0], int64_t{7} * 86'400'000'000'000);
  EXPECT_THAT(notes_, ElementsAre("numbers in 'date' are taken as times of the format %Y%m%d",
                                  "times without a zone are taken as UTC"));
  const CsvRows hours = collect("t,a\n2013010122,1\n2013010123,2\n2013010200,3\n");
  EXPECT_EQ(format_time(hours.time[2]), "2013-01-02T00:00:00Z");
  EXPECT_THAT(refusal_of_files({"t,a\n2013010100,1\n", "t,a\n2013010100,1\n2013010124,2\n"}),
              HasSubstr("b.csv:3: '2013010124' is not a time of the format %Y%m%d%H"));
  // As values, where that is said.
  options_.time_column = "none";
  EXPECT_THAT(collect("date,a\n19580329,1\n19580405,2\n").values,
              ElementsAre(19580328, 1, 19580404, 2));
  EXPECT_THAT(notes_,
              Contains("no time column is wanted: rows are taken in the order of the file"));
}

TEST_F(CsvRowsTest, DatesWithPointsAreTime) {
  const CsvRows rows = collect("Messung;a\n31.12.2020 23:00;1\n01.01.2021 00:00;2\n");
  EXPECT_THAT(rows.columns, ElementsAre("a"));
  EXPECT_EQ(format_time(rows.time[0]), "2020-12-31T23:00:00Z");
  EXPECT_EQ(format_time(rows.time[1]), "2021-01-01T00:00:00Z");
  EXPECT_EQ(format_time(collect("d;a\n31.12.2020;1,5\n").time[0]), "2020-12-31T00:00:00Z");
  EXPECT_EQ(format_time(collect("d;a\n31.12.2020 06:07:08;1,5\n").time[0]), "2020-12-31T06:07:08Z");
  // What is no time of a file that has one is other text.
  EXPECT_THAT(collect("t,a,remark\n2020-01-01,1,31.12.2020 noon\n").columns, ElementsAre("a"));
}

TEST_F(CsvRowsTest, ColumnsOfTimesOfDayAreTold) {
  const CsvRows rows = collect(
      "Date,Time,Uhr,Text,a\n2020-12-30,00:00,6:00:00,soon,1\n2020-12-30,01:00,7:00:00,6,2\n");
  EXPECT_THAT(rows.columns, ElementsAre("a"));
  EXPECT_THAT(rows.clock_columns, ElementsAre("Time", "Uhr"));
}

TEST_F(CsvRowsTest, PointsThatMayGroupThousandsAreRefused) {
  EXPECT_EQ(refusal("d;a\n30.12.2020;995\n31.12.2020;1.000\n01.01.2021;1.005\n"),
            folder_.path("a.csv") +
                ":3, column 'a': the point in 1.000 may be a decimal or a thousands mark; give "
                "--decimal . when it is the decimal mark, else remove the thousands marks");
  const std::string semicolons = "t;a\n2020-01-01;300.500\n2020-01-02;-301.501\n";
  EXPECT_THAT(refusal(semicolons), HasSubstr("a.csv:2, column 'a': the point in 300.500"));
  EXPECT_THAT(refusal("d\ta\n31.12.2020\t1.000\n"), HasSubstr("a.csv:2, column 'a'"));
  // Far behind the records by which the dialect is recognised.
  std::string text = "a;b\n";
  for (int i = 0; i < 2000; ++i) text += "995;1\n";
  EXPECT_THAT(refusal(text + "1.005;2\n"), HasSubstr("a.csv:2002, column 'a'"));
  // Points that cannot group: a group of two digits, a leading zero, four digits in front.
  EXPECT_THAT(collect("a;b\n1.000;x\n1.05;y\n").values, ElementsAre(1, 1.05F));
  EXPECT_THAT(collect("a;b\n0.125;x\n1.250;y\n").values, ElementsAre(0.125, 1.25));
  EXPECT_THAT(collect("a;b\n1000.125;x\n1.250;y\n").values, ElementsAre(1000.125, 1.25));
  // Another column proves the decimal point, but not for one that goes on from 995 to 1.000.
  EXPECT_THAT(collect("a;b\n234.840;0.418\n-999;1.5\n").values,
              ElementsAre(234.84F, 0.418F, -999, 1.5));
  EXPECT_THAT(refusal("a;b\n995;0.5\n1.000;1.5\n"), HasSubstr("a.csv:3, column 'a'"));
  EXPECT_THAT(collect("t,a\n2020-01-01,1.000\n").values, ElementsAre(1));
  EXPECT_THAT(collect("t\ta\n2020-01-01\t1.000\n").values, ElementsAre(1));
  options_.decimal = '.';
  EXPECT_THAT(collect(semicolons).values, ElementsAre(300.5, -301.501F));
}

TEST_F(CsvRowsTest, ARowWithoutTimeIsRefused) {
  EXPECT_THAT(refusal("t,a\n2020-01-01,1\nNA,2\n"),
              HasSubstr("a.csv:3: the time, column 't', is missing ('NA'), and a row without time "
                        "has no place; fill it in or remove the row"));
}

TEST_F(CsvRowsTest, TimesBehindOtherTextAreNotLeftOut) {
  std::string text = "when,a\n";
  for (int i = 0; i < 100; ++i) text += "not yet,1\n";
  for (int i = 0; i < 24; ++i) text += "2020-01-01,1\nNA,1\n";
  EXPECT_THAT(collect(text).columns, ElementsAre("a"));
  text += "2020-01-02,1\n";
  EXPECT_THAT(refusal(text), AllOf(HasSubstr("a.csv:2, column 'when': 'not yet' is no time"),
                                   HasSubstr("100 of its 125 cells are none")));
  options_.time_column = "none";
  EXPECT_THAT(collect(text).columns, ElementsAre("a"));
}

TEST_F(CsvRowsTest, ColumnsThatFloat32DoesNotHoldAreRefused) {
  std::string text = "sec,a,b\n";
  for (int i = 10; i < 30; ++i) text += "16000000" + std::to_string(i) + ",1,0.5\n";
  EXPECT_EQ(refusal(text),
            folder_.path("a.csv") + ":2 and " + folder_.path("a.csv") +
                ":3, column 'sec': 1600000010 and 1600000011, which are both 1600000000 in "
                "float32, and most of its variation is lost so; subtract an offset from the column "
                "or rescale it before the import, or take other columns by --columns; if it is the "
                "time, give --time-column 'sec'");
  options_.columns = {"b"};
  EXPECT_EQ(collect(text).values.size(), 20U);
  options_.columns.clear();
  options_.time_column = "sec";
  EXPECT_THAT(collect(text).columns, ElementsAre("a", "b"));
  options_.time_column = "";
  text = "x\n";
  for (int i = 10; i < 30; ++i) text += "1e-50\n2e-50\n";
  EXPECT_THAT(refusal(text), AllOf(HasSubstr("column 'x': 1e-50 and 2e-50, which are both 0 in"),
                                   ::testing::EndsWith("take other columns by --columns")));
}

TEST_F(CsvRowsTest, NumbersTakenAsSecondsAreSaid) {
  options_.time_column = "t";
  collect("t,a\n1577836800,1\n1577840400,2\n");
  EXPECT_THAT(notes_, ElementsAre("numbers in 't' are taken as seconds since 1970"));
  collect("t,a\n1577836800000,1\n");
  EXPECT_THAT(notes_, ElementsAre("numbers in 't' are taken as milliseconds since 1970"));
  // Hour 24 is none, and the other is a date.
  EXPECT_THAT(refusal("t,a\n2020010123,1\n2020010124,2\n"), HasSubstr("hour 24 is hour 00"));
  EXPECT_THAT(refusal("t,a\n20200101,1\n20200132,1\n"),
              HasSubstr("a.csv:3, column 't': '20200132' is no time of the form %Y%m%d"));
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
