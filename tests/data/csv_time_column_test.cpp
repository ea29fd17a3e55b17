#include "data/csv_time_column.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/error.h"
#include "test_files.h"

namespace longship::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Optional;

class CsvTimeColumnTest : public ::testing::Test {
 protected:
  std::optional<TimeChoice> choice_of(std::string_view text, const CsvImportOptions& options = {}) {
    return choose_time_column(folder_.write("file.csv", text), ',', options, cells_);
  }
  std::optional<std::string> time_column(std::string_view text,
                                         const CsvImportOptions& options = {}) {
    const auto choice = choice_of(text, options);
    return choice ? std::optional(choice->name) : std::nullopt;
  }
  std::string refusal(std::string_view text, const CsvImportOptions& options = {}) {
    return message_of<DataError>([&] { choice_of(text, options); });
  }

  TemporaryFolder folder_;
  CellParser cells_{'.', default_missing_values()};
};

TEST_F(CsvTimeColumnTest, TheTimeIsTheOnlyColumnOfStamps) {
  EXPECT_THAT(time_column("a,when,b\n1,2020-01-01,x\n2,,y\n"), Optional(std::string("when")));
  EXPECT_FALSE(time_column("a,when\n1,NA\n2,\n"));
  CsvImportOptions options;
  options.time_format = "%Y%m%d";
  EXPECT_THAT(time_column("a,time\n1,19580329\n", options), Optional(std::string("time")));
}

TEST_F(CsvTimeColumnTest, SeveralPossibleTimeColumnsNeedAUsualNameOrAChoice) {
  EXPECT_THAT(refusal("sent,got\n2020-01-01,2020-01-02\n"),
              HasSubstr("file.csv: the time may be in sent, got; give --time-column"));
  EXPECT_THAT(time_column("made,date\n2020-01-01,2020-01-02\n"), Optional(std::string("date")));
  EXPECT_THAT(refusal("time,date\n2020-01-01,2020-01-02\n"), HasSubstr("time, date"));
  // What the user took for something else is not the time.
  CsvImportOptions options;
  options.series_column = "sent";
  EXPECT_THAT(time_column("sent,got\n2020-01-01,2020-01-02\n", options),
              Optional(std::string("got")));
  options.columns = {"got"};
  EXPECT_FALSE(time_column("sent,got\n2020-01-01,2020-01-02\n", options));
}

TEST_F(CsvTimeColumnTest, AColumnThatLooksLikeTheTimeIsNeverLeftOut) {
  EXPECT_EQ(
      refusal("x,when\n1,2024-02-28\n2,2024-02-30\n3,2024-03-01\n4,NA\n"),
      folder_.path("file.csv") +
          ":3, column 'when': '2024-02-30' is no time that is recognised, and the column "
          "looks like the time: 1 of its 3 cells are none; correct these cells or remove their "
          "rows, or give --time-column 'when' and a --time-format that reads them (--time-column "
          "none imports without time)");
  // A fifth is enough, and the whole file is counted.
  std::string text = "x,when\n";
  for (int i = 0; i < 300; ++i) text += i % 5 == 0 ? "1,2024-02-28\n" : "1,soon\n";
  EXPECT_THAT(refusal(text), AllOf(HasSubstr("file.csv:3, column 'when': 'soon'"),
                                   HasSubstr("240 of its 300 cells")));
  EXPECT_FALSE(time_column("x,when\n1,2024-02-28\n2,a\n3,b\n4,c\n5,d\n6,e\n"));
  // A usual name is enough, also a German or French one; one of several is told first.
  for (const std::string name : {"Date", "Zeit", "Datum", "horodatage"}) {
    EXPECT_THAT(refusal("x,when," + name + "\n1,2024-02-30,Mon\n1,2024-02-28,Tue\n"),
                AllOf(HasSubstr("column '" + name + "': 'Mon'"), HasSubstr("2 of its 2 cells")));
  }
  EXPECT_FALSE(time_column("x,time\n1,0.5\n2,1.5\n"));
  EXPECT_FALSE(time_column("x,time\n1,NA\n2,\n"));
  // Also beside a column of times that is not called like the time.
  EXPECT_THAT(refusal("made,date\n2020-01-01,2020-01-01\n2020-01-02,?\n"),
              HasSubstr("file.csv:3, column 'date': '?'"));
  EXPECT_THAT(time_column("made,index\n2020-01-01,DAX\n"), Optional(std::string("made")));
  CsvImportOptions options;
  options.time_column = "none";
  EXPECT_FALSE(time_column("x,time\n1,Mon\n", options));
  EXPECT_THAT(time_column("x,none\n1,2020-01-01\n", options), Optional(std::string("none")));
}

TEST_F(CsvTimeColumnTest, AFormatIsAdvisedWhenItReadsTheCell) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"30.12.20 00:00", "%d.%m.%y %H:%M"},
      {"5 Mar 2020 07:08", "%d %b %Y %H:%M"},
      {"20200101 06:00", "%Y%m%d %H:%M"},
      {"31-12-2020", "%d-%m-%Y"},
      {"31/12/20", "%d/%m/%y"},
  };
  for (const auto& [text, format] : cases) {
    EXPECT_THAT(refusal("x,when\n1," + text + "\n"),
                HasSubstr("1 of its 1 cells are none; give --time-column 'when' and --time-format "
                          "'" +
                          format + "'"));
    CsvImportOptions options;
    options.time_column = "when";
    options.time_format = format;
    EXPECT_THAT(time_column("x,when\n1," + text + "\n", options), Optional(std::string("when")));
  }
}

TEST_F(CsvTimeColumnTest, AGivenFormatMustReadAColumn) {
  CsvImportOptions options;
  options.time_format = "%Y";
  EXPECT_THAT(refusal("x,y\n1.5,2.5\n", options),
              HasSubstr("no column holds times of --time-format '%Y'"));
  options.time_format = "%Y%m%d";
  EXPECT_THAT(
      refusal("x,y\n1,20200101\n2,20200132\n", options),
      AllOf(HasSubstr("file.csv:3, column 'y': '20200132'"), HasSubstr("1 of its 2 cells")));
}

TEST_F(CsvTimeColumnTest, NumbersThatAreAscendingDatesAreTheTime) {
  const auto format_of = [&](const std::string& text, const CsvImportOptions& options = {}) {
    const auto choice = choice_of(text, options);
    return choice && choice->calendar ? choice->name + " " + choice->format : "none";
  };
  EXPECT_EQ(format_of("t,a\n2013010100,1\n2013010101,2\nNA,3\n2013010101,4\n"), "t %Y%m%d%H");
  EXPECT_EQ(format_of("date,a\n19580329,1\n19580405,2\n"), "date %Y%m%d");
  EXPECT_EQ(format_of("ts,a\n201301010030,1\n"), "ts %Y%m%d%H%M");
  // Less than half are dates.
  EXPECT_EQ(format_of("t,a\n20130101,1\n2013,2\n2014,3\n"), "none");
  // A column that is called by something else needs more of them.
  std::string text = "load,a\n";
  for (int i = 0; i < 9; ++i) text += "2020010" + std::to_string(i + 1) + ",1\n";
  EXPECT_EQ(format_of(text), "none");
  EXPECT_EQ(format_of(text + "20200110,1\n"), "load %Y%m%d");
  EXPECT_THAT(refusal("t,a\n20200102,1\n20200101,2\n"),
              AllOf(HasSubstr("every number in 't' is a date of the form %Y%m%d, but they do not "
                              "ascend; if it is the time, give --time-column 't'"),
                    HasSubstr("--time-column none")));
  EXPECT_THAT(refusal("t,date\n20200101,20200101\n"), HasSubstr("may be in t, date"));
  // In a long table they ascend within each series.
  CsvImportOptions options;
  options.series_column = "who";
  const std::string shops = "t,who,a\n20200101,x,1\n20200102,x,2\n20200101,y,3\n";
  EXPECT_EQ(format_of(shops, options), "t %Y%m%d");
  EXPECT_THAT(refusal(shops), HasSubstr("do not ascend"));
  // What the user names or takes needs no order.
  options = {};
  options.time_column = "t";
  EXPECT_EQ(format_of(shops, options), "t %Y%m%d");
  options.time_format = "epoch-s";
  EXPECT_EQ(format_of(shops, options), "none");
  options = {};
  options.columns = {"t"};
  EXPECT_EQ(format_of("t,a\n20200101,1\n", options), "none");
  // Stamps with marks come first.
  EXPECT_THAT(time_column("t,when\n20200101,2020-01-01\n"), Optional(std::string("when")));
}

TEST_F(CsvTimeColumnTest, YearsThatNanosecondsDoNotReachAreTold) {
  EXPECT_EQ(refusal("date,x\n2020-01-01,0\n9999-12-31,1\n"),
            folder_.path("file.csv") +
                ":3, column 'date': '9999-12-31' is no time from 1677-09-21 to 2262-04-11, which "
                "times in nanoseconds are limited to, and the column looks like the time: 1 of its "
                "2 cells are none; correct these cells or remove their rows (--time-column none "
                "imports without time)");
}

TEST_F(CsvTimeColumnTest, DatesThatDoNotAscendAreNoValues) {
  std::string text = "DATUM_X,st,x\n";
  for (const std::string station : {"A", "B"}) {
    for (int day = 10; day < 15; ++day)
      text += "201301" + std::to_string(day) + "," + station + ",1\n";
  }
  EXPECT_EQ(refusal(text),
            folder_.path("file.csv") +
                ": every number in 'DATUM_X' is a date of the form %Y%m%d, but they do not ascend; "
                "if it is the time, give --time-column 'DATUM_X' (and --series-column when several "
                "series follow one another), else --time-column none");
  // Nine are too few to tell in a column that is called otherwise; as values they are taken on
  // purpose, and another column may be the time.
  EXPECT_FALSE(time_column(text.substr(0, text.rfind("20130114"))));
  CsvImportOptions options;
  options.time_column = "DATUM_X";
  EXPECT_THAT(time_column(text, options), Optional(std::string("DATUM_X")));
  options.time_column = "none";
  EXPECT_FALSE(time_column(text, options));
  options = {};
  options.columns = {"DATUM_X"};
  EXPECT_FALSE(time_column(text, options));
  std::string two = "born,seen\n";
  for (int i = 10; i < 20; ++i)
    two += "199001" + std::to_string(30 - i) + ",202001" + std::to_string(i) + "\n";
  EXPECT_THAT(time_column(two), Optional(std::string("seen")));
}

TEST_F(CsvTimeColumnTest, MistakesAmongDatesWithoutMarksAreErrors) {
  // 199 dates and one mistake, behind the records by which columns are told.
  const auto days = [](const std::string& name, const std::string& mistake) {
    std::string text = name + ",x\n";
    for (int i = 0; i < 199; ++i) {
      text += std::to_string(20130101 + 100 * (i / 20 % 12) + i % 20) + ",1\n";
      if (i == 150) text += mistake + ",1\n";
    }
    return text;
  };
  for (const std::string name : {"date", "MESS_DATUM"}) {
    EXPECT_EQ(refusal(days(name, "20130431")),
              folder_.path("file.csv") + ":153, column '" + name +
                  "': '20130431' is no time of the form %Y%m%d, as 199 of its 200 cells are; "
                  "correct it and its like or remove their rows, or give --time-column '" +
                  name +
                  "' and a --time-format that reads all of them (--time-column none imports "
                  "without time)");
  }
  CsvImportOptions options;
  options.time_column = "MESS_DATUM";
  EXPECT_THAT(
      refusal(days("MESS_DATUM", "20130431"), options),
      AllOf(HasSubstr("file.csv:153, column 'MESS_DATUM': '20130431'"),
            HasSubstr("or give a --time-format"), ::testing::Not(HasSubstr("--time-column"))));
  // With a usual name half are enough, with another one 95 % are needed.
  EXPECT_THAT(
      refusal("t,a\n2013010123,1\n2013010124,2\n"),
      AllOf(HasSubstr("file.csv:3, column 't': '2013010124' is no time of the form"),
            HasSubstr("1 of its 2 cells"), HasSubstr("(hour 24 is hour 00 of the next day)")));
  EXPECT_THAT(refusal("t,a\n20130101,1\n2013010100,2\n"), HasSubstr("'2013010100' is no time"));
  std::string ids = "id,a\n";
  for (int i = 11; i < 29; ++i) ids += "201301" + std::to_string(i) + ",1\n";
  EXPECT_THAT(time_column(ids), Optional(std::string("id")));
  EXPECT_FALSE(time_column(ids + "20130199,1\n"));  // 18 of 19
  // Less than half are dates: the others are not mistaken.
  options.time_column = "t";
  EXPECT_EQ(choice_of("t,a\n2013010123,1\n1577836800,2\n1577836801,2\n", options)->format, "");
}

TEST_F(CsvTimeColumnTest, NumbersSince1970InAColumnCalledLikeTheTimeAreNoValues) {
  EXPECT_EQ(refusal("timestamp,x\n1609603200,240\n1609463400,7\n"),
            folder_.path("file.csv") +
                ": the numbers in 'timestamp' may be times that count from 1970; if they are, give "
                "--time-column 'timestamp', else --time-column none");
  EXPECT_THAT(refusal("ts,x\n1609603200.5,240\n"), HasSubstr("the numbers in 'ts'"));
  EXPECT_THAT(refusal("Date,x\n1609603200000,240\n"), HasSubstr("the numbers in 'Date'"));
  EXPECT_FALSE(time_column("meter,x\n1609603200,240\n"));
  EXPECT_FALSE(time_column("index,x\n1609603200,240\n160960320,1\n"));
  EXPECT_FALSE(time_column("index,x\n4199999999,240\n"));  // in 2103
  CsvImportOptions options;
  options.time_column = "none";
  EXPECT_FALSE(time_column("timestamp,x\n1609603200,240\n", options));
}

TEST_F(CsvTimeColumnTest, TheFirstHundredRowsDecide) {
  std::string text = "when\n";
  for (int i = 0; i < 100; ++i) text += "2020-01-01\n";
  EXPECT_TRUE(time_column(text + "soon\n"));
}

TEST(UsualTimeNameTest, IgnoresCase) {
  EXPECT_TRUE(usual_time_name("Date_Time"));
  EXPECT_FALSE(usual_time_name("times"));
}

}  // namespace
}  // namespace longship::data
