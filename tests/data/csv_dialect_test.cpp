#include "data/csv_dialect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/error.h"
#include "test_files.h"

namespace longship::data {
namespace {

using ::testing::HasSubstr;

class CsvDialectTest : public ::testing::Test {
 protected:
  CsvDialect recognise(std::string_view text, char delimiter = 0, char decimal = 0) {
    return recognise_dialect(folder_.write("file.csv", text), delimiter, decimal, 0);
  }
  std::string refusal(std::string_view text) {
    return message_of<DataError>([&] { recognise(text); });
  }
  TemporaryFolder folder_;
};

TEST_F(CsvDialectTest, WithoutAHeaderTheFirstLineTellsToo) {
  const std::string path = folder_.write("file.csv", "1,5\n2\n");
  EXPECT_EQ(recognise_dialect(path, ';', 0, 0, /*no_header=*/true).decimal, ',');
  EXPECT_EQ(recognise_dialect(path, ';', 0, 0).decimal, '.');
}

TEST_F(CsvDialectTest, DelimiterIsWhatCutsTheHeader) {
  EXPECT_EQ(recognise("a,b\n1,2\n").delimiter, ',');
  EXPECT_EQ(recognise("a;b\n1,5;2,25\n").delimiter, ';');
  EXPECT_EQ(recognise("a\tb\n1\t2\n").delimiter, '\t');
  EXPECT_EQ(recognise("a|b\n1|2\n").delimiter, '|');
  EXPECT_EQ(recognise("only\n1\n2\n").delimiter, ',');
  EXPECT_EQ(recognise("\"a;b\",c\n1,2\n").delimiter, ',');
  // The header is cut by both, the rows by one only.
  EXPECT_EQ(recognise("temp, C;hum, %\n1;2\n3;4\n").delimiter, ';');
  EXPECT_THAT(refusal("a,x;b,y\n1,5;2,5\n"), HasSubstr("comma or semicolon; give --delimiter"));
}

TEST_F(CsvDialectTest, DecimalMarkMustBeUnambiguous) {
  EXPECT_EQ(recognise("a;b\n1,5;2\n").decimal, ',');
  EXPECT_EQ(recognise("a;b\n1.5;2\n").decimal, '.');
  EXPECT_EQ(recognise("a;b\n1;2\n").decimal, '.');
  EXPECT_EQ(recognise("a;b\n1299,995;0,125\n").decimal, ',');
  EXPECT_EQ(recognise("a,b\n1,2\n").decimal, '.');
  EXPECT_THAT(refusal("a;b\n1,299;2,455\n"), HasSubstr("thousands mark; give --decimal"));
  EXPECT_EQ(recognise("a;b\n1,299;2,455\n", 0, ',').decimal, ',');
  EXPECT_THAT(refusal("a;b\n1,5;2\n3;4.5\n"),
              ::testing::AllOf(HasSubstr("file.csv:2"), HasSubstr("file.csv:3"), HasSubstr("4.5")));
}

}  // namespace
}  // namespace longship::data
