#include "data/series_store.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "data/error.h"
#include "data/series_file.h"
#include "hdf5_builder.h"
#include "test_files.h"

namespace longship::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SeriesStoreTest : public ::testing::Test {
 protected:
  SeriesStoreTest() {
    write_series_file(folder_.path("b.h5"), make_table({{{3, 4}}}, 10), false);
    write_series_file(folder_.path("a.h5"), make_table({{{1, 2}}, {{5, 6}}}, 10), false);
    folder_.write("notes.txt", "x");
  }
  TemporaryFolder folder_;
};

TEST_F(SeriesStoreTest, FoldersAndPatternsGiveFilesByName) {
  EXPECT_THAT(expand_paths({folder_.path("")}), ElementsAre(HasSubstr("a.h5"), HasSubstr("b.h5")));
  EXPECT_THAT(expand_paths({folder_.path("[b]*.h5")}), ElementsAre(folder_.path("b.h5")));
  EXPECT_THAT(message_of<DataError>([&] { expand_paths({folder_.path("c*.h5")}); }),
              HasSubstr("no file matches"));
  EXPECT_THAT(
      message_of<DataError>([&] {
        expand_paths({folder_.path("a.h5"), folder_.path("../") + "x/../", folder_.path("*.h5")});
      }),
      HasSubstr("a.h5"));
  EXPECT_THROW(expand_paths({}), DataError);
}

TEST_F(SeriesStoreTest, FilesFollowEachOtherAndNamesStayDistinct) {
  const SeriesTable table = read_series({folder_.path("")}, "", {"b", "a"});
  EXPECT_THAT(table.series, ElementsAre("a.h5/0", "1", "b.h5/0"));
  EXPECT_THAT(table.offsets, ElementsAre(0, 1, 2, 3));
  EXPECT_TRUE(at::equal(table.values, at::tensor({2.f, 1.f, 6.f, 5.f, 4.f, 3.f}).view({3, 2})));
  EXPECT_THAT(table.time, ElementsAre(0, 0, 0));
}

TEST_F(SeriesStoreTest, FilesCalledAlikeAreToldApartByTheirPaths) {
  folder_.write("x/data.h5", "");
  folder_.write("y/data.h5", "");
  const std::string first = folder_.path("x/data.h5");
  const std::string second = folder_.path("y/data.h5");
  for (const std::string& path : {first, second}) {
    write_series_file(path, make_table({{{1, 2}}}, 10), true);
  }
  const SeriesTable table = read_series({first, second, folder_.path("b.h5")}, "", {});
  EXPECT_THAT(table.series, ElementsAre(first + "/0", second + "/0", "b.h5/0"));
  EXPECT_EQ(table.place(1), second + ": series '" + second + "/0'");
}

TEST_F(SeriesStoreTest, AFileThatCannotBeLookedAtIsNotSaidToBeAbsent) {
  const std::string loop = folder_.path("loop.h5");
  std::filesystem::create_symlink("loop.h5", loop);
  EXPECT_THAT(
      message_of<DataError>([&] { read_series({loop}, "", {}); }),
      ::testing::AllOf(HasSubstr("loop.h5 cannot be looked at: "), HasSubstr("symbolic links")));
}

TEST_F(SeriesStoreTest, FilesMustBeAlike) {
  write_series_file(folder_.path("c.h5"), make_table({{{1, 2}}}), false);
  EXPECT_THAT(message_of<DataError>([&] { read_series({folder_.path("")}, "", {}); }),
              HasSubstr("c.h5 has no time stamps"));
  write_series_file(folder_.path("c.h5"), make_table({{{1}}}, 10), true);
  EXPECT_THAT(message_of<DataError>([&] { read_series({folder_.path("")}, "", {}); }),
              HasSubstr("c.h5 has other columns"));
}

TEST_F(SeriesStoreTest, AColumnThatFloat32DoesNotHoldIsRefusedWhenItIsUsed) {
  std::vector<double> values;
  for (int row = 0; row < 20; ++row) {
    values.insert(values.end(), {1.6e9 + row, 1.0 * row, 1e-50 * row});
  }
  const std::string path = folder_.path("wide.h5");
  {
    Hdf5Builder file(path);
    file.numbers("/x", {20, 3}, values);
    file.strings_attribute("/x", "columns", {"seconds", "a", "tiny"});
  }
  const auto refusal = [&](const std::vector<std::string>& columns) {
    return message_of<DataError>([&] { read_series({path}, "x", columns); });
  };
  EXPECT_EQ(refusal({"a", "seconds"}),
            path +
                ": /x: column 'seconds' has in rows 0 and 1 the values 1600000000 and "
                "1600000001, which are both 1600000000 in float32, and most of its variation is "
                "lost so; subtract an offset from the column or rescale it, or leave it out of "
                "data.inputs and data.targets");
  EXPECT_THAT(refusal({"tiny"}), HasSubstr("column 'tiny' has in rows 0 and 1 the values 0 and "
                                           "1e-50, which are both 0 in float32"));
  EXPECT_THAT(refusal({}), HasSubstr("is lost so (and of 1 more columns); subtract"));
  EXPECT_THAT(numbers_of(read_series({path}, "x", {"a"}).values).back(), 19);
  // Who only looks at it is told.
  EXPECT_THAT(read_series_from(path, "x", {}).lost,
              ElementsAre(HasSubstr("'seconds'"), HasSubstr("'tiny'")));
}

TEST_F(SeriesStoreTest, ATextFileIsSentToDataImport) {
  EXPECT_THAT(message_of<DataError>([&] { read_series({folder_.path("notes.txt")}, "", {}); }),
              HasSubstr("longship data import"));
  EXPECT_THAT(message_of<DataError>([&] { read_series({folder_.path("none.h5")}, "", {}); }),
              HasSubstr("none.h5: no such file"));
}

TEST(ColumnNamesTest, AreFoundOrTheNearestIsNamed) {
  EXPECT_THAT(find_columns({"temp", "dewp", "x"}, {"x", "temp"}, "f"), ElementsAre(2, 0));
  EXPECT_THAT(find_columns({"a", "b"}, {}, "f"), ElementsAre(0, 1));
  EXPECT_THAT(message_of<DataError>([] {
                find_columns({"temp", "dewp"}, {"tempp"}, "f.h5");
              }),
              ::testing::AllOf(HasSubstr("f.h5 has no column 'tempp'"),
                               HasSubstr("did you mean 'temp'?"), HasSubstr("temp, dewp")));
  EXPECT_THAT(message_of<DataError>([] {
                find_columns({"a", "b", "a"}, {"a"}, "f");
              }),
              HasSubstr("positions 1, 3"));
}

TEST(RegularStepTest, IsZeroUnlessAllDifferencesAgree) {
  EXPECT_EQ(regular_step({0, 3, 5}, {0, 5, 10, 7, 12}), 5);
  EXPECT_EQ(regular_step({0, 3}, {0, 5, 11}), 0);
  EXPECT_EQ(regular_step({0, 3}, {}), 0);
  EXPECT_EQ(regular_step({0, 1}, {7}), 0);
}

}  // namespace
}  // namespace longship::data
