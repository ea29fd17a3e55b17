#include "data/csv_import.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

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

TEST_F(CsvImportTest, AFileIsTakenOnceAndMustBeAFile) {
  const std::string path = folder_.write("a.csv", "t,a\n2020-01-01,1\n");
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::filesystem::create_symlink(path, folder / "b.csv");
  EXPECT_THAT(message_of<DataError>([&] {
                import_csv({path, folder / "b.csv"}, {});
              }),
              AllOf(HasSubstr("b.csv"), HasSubstr("named twice")));
  EXPECT_THAT(message_of<DataError>([&] { import_csv({"/dev/zero"}, {}); }),
              HasSubstr("/dev/zero is a device or pipe"));
  std::filesystem::create_symlink("loop.csv", folder / "loop.csv");
  EXPECT_THAT(message_of<DataError>([&] { import_csv({folder / "loop.csv"}, {}); }),
              AllOf(HasSubstr("loop.csv cannot be looked at: "), HasSubstr("symbolic links")));
}

TEST_F(CsvImportTest, LongFormatIsToldApartByTheSeriesColumn) {
  CsvImportOptions options;
  options.series_column = "store";
  const CsvImport imported =
      take("t,store,a\n2020-01-01,y,1\n2020-01-01,x,2\n2020-01-02,y,3\n2020-01-03,y,4\n", options);
  EXPECT_THAT(imported.table.series, ElementsAre("y", "x"));
  EXPECT_THAT(imported.table.offsets, ElementsAre(0, 3, 4));
  EXPECT_THAT(numbers_of(imported.table.values), ElementsAre(1, 3, 4, 2));
  EXPECT_THAT(refusal("t,store,a\n2020-01-01,,1\n", options), HasSubstr("file.csv:2"));
}

TEST_F(CsvImportTest, RepairsAreSaidAndStrictRefusesThem) {
  const std::string text =
      "t,a\n2020-01-01 00:00:00.2,2\n2020-01-01 00:00:00.0,1\n2020-01-01 00:00:00.0,1\n"
      "2020-01-01 00:00:00.8,5\n2020-01-01 00:00:01.0,6\n";
  const CsvImport imported = take(text);
  EXPECT_EQ(imported.report.rows_repeated, 1);
  EXPECT_EQ(imported.report.step_ns, 200'000'000);
  EXPECT_EQ(imported.report.hole_rows, 2);
  EXPECT_EQ(imported.table.rows(), 6);
  EXPECT_EQ(imported.table.time[3] - imported.table.time[2], 200'000'000);
  EXPECT_THAT(imported.table.notes, Contains(HasSubstr("2 after 2020-01-01T00:00:00.2Z")));
  CsvImportOptions strict;
  strict.strict = true;
  EXPECT_THAT(refusal(text, strict), HasSubstr("file.csv:3"));
}

TEST_F(CsvImportTest, ConflictsNameTheOptionAndTheColumnsOfText) {
  EXPECT_THAT(refusal("t,store,a\n2020-01-01,x,1\n2020-01-01,y,2\n"),
              AllOf(HasSubstr("file.csv:2"), HasSubstr("file.csv:3"), HasSubstr("--series-column"),
                    HasSubstr("store")));
  // Equal numbers of two stores are no copies.
  EXPECT_THAT(refusal("t,store,a\n2020-01-01,x,1\n2020-01-01,y,1\n"), HasSubstr("--series-column"));
}

TEST_F(CsvImportTest, RowsThatDifferInAColumnLeftOutAreNoCopies) {
  CsvImportOptions options;
  options.columns = {"a"};
  const std::string stores = "t,a,store\n2020-01-01,1,x\n2020-01-01,1,y\n2020-01-02,2,x\n";
  EXPECT_THAT(refusal(stores, options),
              AllOf(HasSubstr("file.csv:2"), HasSubstr("file.csv:3"),
                    HasSubstr("--series-column (columns that were left out: store)")));
  // Files may order their columns differently: the second repeats a row of the first.
  options.series_column = "store";
  const std::string first = folder_.write("1.csv", "t,a,u,v,store\n2020-01-01,1,5,6,x\n");
  const std::string second = folder_.write("2.csv", "v,u,t,a,store\n6,5,2020-01-01,1,x\n");
  EXPECT_EQ(import_csv({first, second}, options).report.rows_repeated, 1);
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
  EXPECT_THAT(numbers_of(imported.table.values), ElementsAre(1, 2, 3, 4, 5, 6));
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
