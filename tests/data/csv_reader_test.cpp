#include "data/csv_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/error.h"
#include "test_files.h"

namespace longship::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Records = std::vector<std::vector<std::string>>;

class CsvReaderTest : public ::testing::Test {
 protected:
  Records read(std::string_view bytes, char delimiter = ',', int64_t skip_lines = 0) {
    CsvReader reader(folder_.write("file.csv", bytes), delimiter, skip_lines);
    Records records;
    lines_.clear();
    while (reader.next()) {
      records.emplace_back(reader.fields().begin(), reader.fields().end());
      lines_.push_back(reader.line());
    }
    return records;
  }
  std::string refusal(std::string_view bytes) {
    return message_of<DataError>([&] { read(bytes); });
  }

  TemporaryFolder folder_;
  std::vector<int64_t> lines_;
};

TEST_F(CsvReaderTest, AllLineEndsGiveTheSameRecords) {
  const Records expected = {{"a", "b"}, {"1", "2"}, {"3", "4"}};
  for (const char* text :
       {"a,b\n1,2\n3,4\n", "a,b\n1,2\n3,4", "a,b\r\n1,2\r\n3,4\r\n", "a,b\r1,2\r3,4\r",
        "a,b\r1,2\r3,4", "a,b\r\n1,2\n3,4", "a,b\r\r\n1,2\r\r\n3,4\r\r\n"}) {
    EXPECT_EQ(read(text), expected) << ::testing::PrintToString(text);
    EXPECT_THAT(lines_, ElementsAre(1, 2, 3)) << ::testing::PrintToString(text);
  }
}

TEST_F(CsvReaderTest, QuotedFieldsKeepWhatIsInThem) {
  EXPECT_EQ(read("\"a\",\"b \"\"x\"\"\"\n\"1,5\" , \"two\nlines\"\n3,4\n"),
            (Records{{"a", "b \"x\""}, {"1,5", "two\nlines"}, {"3", "4"}}));
  EXPECT_THAT(lines_, ElementsAre(1, 2, 4));
  EXPECT_THAT(refusal("a,b\n\"1,2\n3,4\n"), HasSubstr("file.csv:2: a quoted field does not end"));
  EXPECT_THAT(refusal("a,b\n\"1\"x,2\n"), HasSubstr("file.csv:2"));
}

TEST_F(CsvReaderTest, BlanksAroundFieldsAreRemoved) {
  EXPECT_EQ(read(" a , b\t\n 1 ,$4.00 \n"), (Records{{"a", "b"}, {"1", "$4.00"}}));
  EXPECT_EQ(read("a\tb\n1\t\n", '\t'), (Records{{"a", "b"}, {"1", ""}}));
}

TEST_F(CsvReaderTest, BlankLinesAreSkippedAndTheFirstInnerOneTold) {
  CsvReader reader(folder_.write("file.csv", "a,b\n1,2\n\n  \n3,4\n\n\n"), ',');
  int records = 0;
  while (reader.next()) ++records;
  EXPECT_EQ(records, 3);
  EXPECT_EQ(reader.first_inner_blank(), 3);
  EXPECT_EQ(read("a,b\n\"\",\n"), (Records{{"a", "b"}, {"", ""}}));
}

TEST_F(CsvReaderTest, ByteOrderMarkIsDroppedAndOthersRefused) {
  EXPECT_EQ(read("\xef\xbb\xbfid,name\n1,x\n"), (Records{{"id", "name"}, {"1", "x"}}));
  EXPECT_EQ(read("\xef\xbb\xbf\"id\",name\n1,x\n"), (Records{{"id", "name"}, {"1", "x"}}));
  EXPECT_THAT(refusal(std::string_view("\xff\xfei\0d\0", 6)), HasSubstr("UTF-16 (little-endian)"));
  EXPECT_THAT(refusal(std::string_view("i\0d\0\n\0", 6)), HasSubstr("zero bytes"));
  EXPECT_THAT(refusal("\x1f\x8b\x08"), HasSubstr("gzip"));
}

TEST_F(CsvReaderTest, BytesThatAreNotUtf8AreRefusedWithTheirOffset) {
  EXPECT_THAT(refusal("id,name\n1,english\n2,\xa9\n"),
              ::testing::AllOf(HasSubstr("file.csv:3"), HasSubstr("0xA9 at offset 20")));
  EXPECT_THAT(refusal("id,\"na\xa9me\"\n"), HasSubstr("at offset 6"));
  EXPECT_EQ(read("\xc3\xa5,\xe4\xb8\xad\n"), (Records{{"\xc3\xa5", "\xe4\xb8\xad"}}));
}

TEST_F(CsvReaderTest, SkipsLinesInFront) {
  EXPECT_EQ(read("A title, made\r\n# comment\r\na,b\r\n", ',', 2), (Records{{"a", "b"}}));
  EXPECT_THAT(lines_, ElementsAre(3));
}

TEST_F(CsvReaderTest, RecordsLongerThanTheBufferAreRead) {
  const std::string wide(3'000'000, 'x');
  const Records records = read("a,b\n" + wide + ",1\n2,3\n");
  ASSERT_EQ(records.size(), 3U);
  EXPECT_EQ(records[1][0], wide);
  EXPECT_EQ(records[2][1], "3");
}

TEST(CsvTextTest, MessagesStayReadable) {
  EXPECT_EQ(shown("a\xa9\n\xc3\xa5"), "a\\xA9\\x0A\xc3\xa5");
  EXPECT_EQ(shown(std::string(100, 'x')), std::string(40, 'x') + "...");
  size_t bad = 0;
  EXPECT_FALSE(valid_utf8("ab\xed\xa0\x80", bad));  // a surrogate
  EXPECT_EQ(bad, 2U);
  EXPECT_FALSE(valid_utf8("\xc0\x80", bad));  // overlong
}

}  // namespace
}  // namespace longship::data
