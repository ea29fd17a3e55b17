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
  EXPECT_THAT(message_of<DataError>([&] { header.find("id"); }),
              HasSubstr("file.csv:1: the header has the name 'id' more than once, at positions 1, "
                        "3; give each column its own name"));
}

TEST_F(CsvHeaderTest, AFirstLineOfValuesIsNoHeader) {
  EXPECT_THAT(refusal(""), HasSubstr("file.csv is empty"));
  EXPECT_THAT(refusal("2020-01-01,1.5\n"),
              HasSubstr("file.csv:1: the first line holds values, not names: '2020-01-01', '1.5'; "
                        "put a line with the names"));
  EXPECT_THAT(refusal("30.12.2020 00:00,1\n"), HasSubstr("'30.12.2020 00:00', '1'"));
  EXPECT_THAT(refusal("1,2\n3,4\n"), AllOf(HasSubstr("'1', '2'; put"), HasSubstr("--no-header")));
  EXPECT_THAT(refusal("1,,3\n"), HasSubstr("'1', '', '3'"));
  EXPECT_THAT(refusal("1,NA,3\n"), HasSubstr("'1', 'NA', '3'"));
  EXPECT_THAT(refusal(",0.5\n"), HasSubstr("'', '0.5'"));
  EXPECT_THAT(refusal("1,2,3,4,5,6,7,8\n"), HasSubstr("'5', '6' and 2 more; put"));
  // An index without a name, as pandas writes it, before columns called by numbers.
  EXPECT_THAT(header_of(",0,1\n").names(), ElementsAre("column_1", "0", "1"));
  const CsvHeader numbered = header_of("0,1,2,3\n");
  EXPECT_THAT(numbered.names(), ElementsAre("0", "1", "2", "3"));
  EXPECT_THAT(numbered.notes(),
              ElementsAre(HasSubstr("file.csv:1: the first line, 0, 1, 2, 3, ..., is taken as")));
  EXPECT_THAT(refusal("0,1,2\n"), HasSubstr("--skip-lines 1 --no-header"));
  EXPECT_THAT(header_of("a,1.5\n").names(), ElementsAre("a", "1.5"));
  EXPECT_THAT(header_of("NA,,\n").names(), ElementsAre("NA", "column_2", "column_3"));
}

TEST_F(CsvHeaderTest, WithoutAHeaderColumnsAreCountedAndTheFirstLineStays) {
  CsvReader reader(folder_.write("file.csv", "1,2,x\n3,4,y\n5,6\n"), ',');
  CsvHeader header(reader, cells_, /*no_header=*/true);
  EXPECT_THAT(header.names(), ElementsAre("c0", "c1", "c2"));
  ASSERT_TRUE(reader.next());
  header.check_width(reader);
  EXPECT_THAT(reader.fields(), ElementsAre("1", "2", "x"));
  EXPECT_EQ(reader.line(), 1);
  ASSERT_TRUE(reader.next());
  EXPECT_THAT(reader.fields(), ElementsAre("3", "4", "y"));
  ASSERT_TRUE(reader.next());
  EXPECT_THAT(message_of<DataError>([&] { header.check_width(reader); }),
              HasSubstr("file.csv:3: 2 fields found, 3 expected as in the first line"));
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

TEST_F(CsvHeaderTest, CommentsAndLinesForSpreadsheetsAreToldWithTheLinesToSkip) {
  EXPECT_EQ(
      refusal("# station 5\n# lat 3\nt,a\n1,2\n"),
      folder_.path("file.csv") +
          ":3: 2 fields, but the first line, '# station 5', has 1; if that is a comment above "
          "the header, give --skip-lines 2");
  EXPECT_THAT(header_of("# t,a\n1,2\n").names(), ElementsAre("# t", "a"));
  EXPECT_THAT(refusal("t,a\n1,2\n# moved\n3,4\n"),
              HasSubstr("file.csv:3: 1 fields found, 2 expected as in the header; the line looks "
                        "like a comment: remove it"));
  for (const std::string mark : {";", ","}) {
    EXPECT_EQ(refusal("sep=" + mark + "\nt" + mark + "a\n1" + mark + "2\n"),
              folder_.path("file.csv") + ":1: the line 'sep=" + (mark == "," ? "" : ";") +
                  "...' tells spreadsheets the delimiter and is no header; give --skip-lines 1");
  }
  // What is skipped counts.
  CsvReader reader(folder_.write("file.csv", "title\n# x\n# y\na,b\n1,2\n"), ',', 1);
  CsvHeader header(reader, cells_);
  ASSERT_TRUE(reader.next());
  header.check_width(reader);
  ASSERT_TRUE(reader.next());
  EXPECT_THAT(message_of<DataError>([&] { header.check_width(reader); }),
              HasSubstr("give --skip-lines 3"));
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

}  // namespace
}  // namespace longship::data
