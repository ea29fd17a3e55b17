#include "data/csv_cell.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace longship::data {
namespace {

TEST(CsvCellTest, ReadsNumbers) {
  const CellParser point('.', default_missing_values());
  double value = 0;
  for (const auto& [text, expected] : {std::pair{"0", 0.0},
                                       {"-99.99", -99.99},
                                       {"-0", -0.0},
                                       {"-2.00E-02", -0.02},
                                       {"3E+3", 3000.0},
                                       {"4e4", 4e4},
                                       {"+5", 5.0},
                                       {".5", 0.5},
                                       {"5.", 5.0},
                                       {"0.1", 0.1}}) {
    EXPECT_EQ(point.parse(text, value), CellKind::kNumber) << text;
    EXPECT_EQ(value, expected) << text;
  }
  EXPECT_EQ(point.parse("-INF", value), CellKind::kNumber);
  EXPECT_EQ(value, -std::numeric_limits<double>::infinity());
  const CellParser comma(',', default_missing_values());
  EXPECT_EQ(comma.parse("-1299,99", value), CellKind::kNumber);
  EXPECT_EQ(value, -1299.99);
}

TEST(CsvCellTest, NeverMisreadsOtherNotations) {
  const CellParser point('.', default_missing_values());
  const CellParser comma(',', default_missing_values());
  double value = 0;
  for (const char* text : {"95%", "$4.00", "1,299.99", "1.299,99", "1 299",
                           "\xe2\x82\xac"
                           "4",
                           "(5)", "5-"}) {
    const CellKind kind = point.parse(text, value);
    EXPECT_TRUE(kind == CellKind::kNumberLike || kind == CellKind::kText) << text;
    EXPECT_TRUE(std::isnan(value)) << text;
  }
  EXPECT_EQ(point.parse("95%", value), CellKind::kNumberLike);
  EXPECT_EQ(point.parse("1.299,99", value), CellKind::kNumberLike);
  EXPECT_EQ(comma.parse("1.299,99", value), CellKind::kNumberLike);
  EXPECT_EQ(comma.parse("1.299", value), CellKind::kNumberLike);
  EXPECT_EQ(point.parse("drizzle", value), CellKind::kText);
  EXPECT_EQ(point.parse("2012-01-01", value), CellKind::kText);
  EXPECT_EQ(point.parse("0x10", value), CellKind::kText);
}

TEST(CsvCellTest, MissingValuesCanBeReplaced) {
  const CellParser usual('.', default_missing_values());
  double value = 0;
  for (const char* text : {"", "NA", "NaN", "NULL"}) {
    EXPECT_EQ(usual.parse(text, value), CellKind::kMissing) << text;
    EXPECT_TRUE(std::isnan(value));
  }
  const CellParser own('.', {"-999", "X"});
  EXPECT_EQ(own.parse("-999", value), CellKind::kMissing);
  EXPECT_EQ(own.parse("X", value), CellKind::kMissing);
  EXPECT_EQ(own.parse("NA", value), CellKind::kText);
  EXPECT_EQ(own.parse("NaN", value), CellKind::kText);
  EXPECT_EQ(own.parse("", value), CellKind::kText);
}

}  // namespace
}  // namespace longship::data
