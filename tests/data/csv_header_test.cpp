#include "data/csv_header.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/error.h"
#include "test_files.h"

namespace longship::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Optional;

class CsvHeaderTest : public ::testing::Test {
 protected:
  // The header after all rows were checked against it.
  CsvHeader header_of(std::string_view text) {
    CsvReader reader(folder_.write("file.csv", text), ',');
    CsvHeader header(reader, cells_);
    while (reader.next()) header.check_width(reader);
    return header;
  }
  std::string refusal(std::string_view text) {
    return message_of<DataError>([&] { header_of(text); });
  }
  std::optional<std::string> time_column(std::string_view text,
                                         const CsvImportOptions& options = {}) {
    return recognise_time_column(folder_.write("file.csv", text), ',', options, cells_);
  }

  TemporaryFolder folder_;
  CellParser cells_{'.', default_missing_values()};
};

TEST_F(CsvHeaderTest, ColumnsAreFoundByNameAndNumberedWithoutOne) {
  const CsvHeader header = header_of("temp,,dewp,\n");
  EXPECT_THAT(header.names(), ElementsAre("temp", "column_2", "dewp", "column_4"));
  EXPECT_THAT(header.find("dewp"), Optional(2U));
  EXPECT_FALSE(header.find("Dewp"));
  EXPECT_EQ(header.require("column_2"), 1U);
  EXPECT_THAT(message_of<DataError>([&] { header.require("tempp"); }),
              AllOf(HasSubstr("file.csv has no column 'tempp'"), HasSubstr("'temp'")));
}

TEST_F(CsvHeaderTest, RepeatedNamesMatterOnlyWhenAskedFor) {
  const CsvHeader header = header_of("id,age,id\n");
  EXPECT_TRUE(header.repeated(0));
  EXPECT_FALSE(header.repeated(1));
  EXPECT_TRUE(header.repeated(2));
  EXPECT_EQ(header.require("age"), 1U);
  EXPECT_THAT(message_of<DataError>([&] { header.find("id"); }), HasSubstr("at positions 1, 3"));
}

TEST_F(CsvHeaderTest, AFirstRowOfDataIsNoHeader) {
  EXPECT_THAT(refusal(""), HasSubstr("file.csv is empty"));
  EXPECT_THAT(refusal("2020-01-01,1.5\n"),
              HasSubstr("file.csv:1: the first row holds data ('2020-01-01')"));
  EXPECT_THAT(refusal("0.5,1\n"), HasSubstr("put a header row"));
  // Whole numbers may be names: of years, of sensors.
  EXPECT_THAT(header_of("0,1\n").names(), ElementsAre("0", "1"));
  EXPECT_THAT(header_of("a,1.5\n").names(), ElementsAre("a", "1.5"));
}

TEST_F(CsvHeaderTest, RaggedRowsNameLineAndCounts) {
  EXPECT_THAT(refusal("id,age,x\n1101,2\n1102,3,4,5\n"),
              AllOf(HasSubstr("file.csv:2"), HasSubstr("2 fields found, 3 expected")));
  EXPECT_THAT(refusal("a,b\n1,2\n1,2,3\n"),
              AllOf(HasSubstr("file.csv:3"), HasSubstr("3 fields found, 2 expected as in the "
                                                       "header")));
  EXPECT_THAT(refusal("a,b\n1,2\n1,2,\n"), HasSubstr("file.csv:3"));
  EXPECT_THAT(refusal("My measurements\nt,a,b\n"),
              AllOf(HasSubstr("file.csv:2: 3 fields"), HasSubstr("'My measurements', has 1"),
                    HasSubstr("--skip-lines 1")));
}

TEST_F(CsvHeaderTest, ADelimiterAtEveryRowEndIsDropped) {
  const CsvHeader rows = header_of("a,b\n1,2,\n3,4,\n");
  EXPECT_THAT(rows.names(), ElementsAre("a", "b"));
  EXPECT_THAT(rows.notes(), ElementsAre(HasSubstr("every row ends in a delimiter")));
  EXPECT_THAT(refusal("a,b\n1,2,\n3,4\n"),
              AllOf(HasSubstr("file.csv:3: 2 fields found, 3 expected"), HasSubstr("last one")));
  EXPECT_THAT(refusal("a,b\n1,2,\n3,4,5\n"), HasSubstr("file.csv:3"));
  const CsvHeader only_header = header_of("a,b,\n1,2\n3,4\n");
  EXPECT_THAT(only_header.names(), ElementsAre("a", "b"));
  EXPECT_THAT(only_header.notes(), ElementsAre(HasSubstr("header ends in a delimiter")));
  const CsvHeader both = header_of("a,b,\n1,2,\n");
  EXPECT_THAT(both.names(), ElementsAre("a", "b", "column_3"));
  EXPECT_THAT(both.notes(), IsEmpty());
}

TEST_F(CsvHeaderTest, TheTimeIsTheOnlyColumnOfStamps) {
  EXPECT_THAT(time_column("a,when,b\n1,2020-01-01,x\n2,,y\n"), Optional(std::string("when")));
  EXPECT_FALSE(time_column("a,when\n1,2020-01-01\n2,soon\n"));
  EXPECT_FALSE(time_column("a,when\n1,NA\n2,\n"));
  EXPECT_FALSE(time_column("a,time\n1,19580329\n"));
  CsvImportOptions options;
  options.time_format = "%Y%m%d";
  EXPECT_THAT(time_column("a,time\n1,19580329\n", options), Optional(std::string("time")));
}

TEST_F(CsvHeaderTest, SeveralPossibleTimeColumnsNeedAUsualNameOrAChoice) {
  EXPECT_THAT(message_of<DataError>([&] { time_column("sent,got\n2020-01-01,2020-01-02\n"); }),
              HasSubstr("file.csv: the time may be in sent, got; give --time-column"));
  EXPECT_THAT(time_column("made,date\n2020-01-01,2020-01-02\n"), Optional(std::string("date")));
  EXPECT_THAT(message_of<DataError>([&] { time_column("time,date\n2020-01-01,2020-01-02\n"); }),
              HasSubstr("time, date"));
  // What the user took for something else is not the time.
  CsvImportOptions options;
  options.series_column = "sent";
  EXPECT_THAT(time_column("sent,got\n2020-01-01,2020-01-02\n", options),
              Optional(std::string("got")));
  options.columns = {"got"};
  EXPECT_FALSE(time_column("sent,got\n2020-01-01,2020-01-02\n", options));
}

TEST_F(CsvHeaderTest, AColumnOfTimesWithASlipIsNotLeftOutSilently) {
  EXPECT_THAT(message_of<DataError>(
                  [&] { time_column("x,when\n1,2024-02-28\n2,2024-02-30\n3,2024-03-01\n"); }),
              HasSubstr("file.csv:3, column 'when': '2024-02-30' is no time"));
  CsvImportOptions options;
  options.time_format = "%Y";
  EXPECT_THAT(message_of<DataError>([&] { time_column("x,y\n1.5,2.5\n", options); }),
              HasSubstr("no column holds times of --time-format '%Y'"));
}

TEST_F(CsvHeaderTest, TheFirstHundredRowsDecide) {
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
