#include "data/foreign_reader.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/error.h"
#include "data/time_parser.h"
#include "hdf5_builder.h"

namespace longship::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ForeignReaderTest : public Hdf5Test {
 protected:
  SeriesTable read(const std::string& dataset = "", const std::vector<std::string>& columns = {}) {
    return read_series_from(path_, dataset, columns);
  }
  std::string refusal(const std::string& dataset = "",
                      const std::vector<std::string>& columns = {}) {
    return message_of<DataError>([&] { read(dataset, columns); });
  }
};

TEST_F(ForeignReaderTest, TheOnlyArrayIsTakenWithNamesAndTimeBesideIt) {
  build([](Hdf5Builder& file) {
    file.numbers("/x", {3, 2}, {1, 2, 3, 4, 5, 6}, H5T_STD_I32BE);
    file.strings_attribute("/x", "columns", {"a", "b"});
    file.numbers("/time", {3}, {0, 1, 2});
    file.text_attribute("/time", "units", "hours since 2013-01-01");
  });
  const SeriesTable table = read("", {"b"});
  EXPECT_THAT(numbers_of(table.values), ElementsAre(2, 4, 6));
  EXPECT_EQ(format_time(table.time[2]), "2013-01-01T02:00:00Z");
  EXPECT_THAT(table.series, ElementsAre("data"));
}

TEST_F(ForeignReaderTest, SeveralCandidatesAreListed) {
  build([](Hdf5Builder& file) {
    file.numbers("/x", {3, 1}, {1, 2, 3});
    file.group("/g");
    file.numbers("/g/y", {2, 1}, {4, 5});
  });
  EXPECT_THAT(refusal(), AllOf(HasSubstr("/x (3, 1)"), HasSubstr("/g/y (2, 1)"),
                               HasSubstr("name one with data.dataset")));
  EXPECT_THAT(numbers_of(read("g").values), ElementsAre(4, 5));
  EXPECT_THAT(numbers_of(read("/x").values), ElementsAre(1, 2, 3));
  EXPECT_THAT(refusal("/z"), HasSubstr("has no /z"));
}

TEST_F(ForeignReaderTest, WhatIsNoColumnIsNoCandidate) {
  build([](Hdf5Builder& file) {
    file.numbers("/values", {4, 1}, {1, 2, 3, 4});
    file.integers("/offsets", {0, 3, 4});
    file.integers("/time", {1, 2, 3, 4});
    file.strings("/series_id", {"x", "y"});
    file.create("/none", {0}, H5T_IEEE_F32LE);
  });
  const SeriesTable table = read();
  EXPECT_THAT(table.offsets, ElementsAre(0, 3, 4));
  EXPECT_EQ(table.notes.front(), path_ + ": read from /values, (4, 1)");
  // Only whole numbers cut.
  build([](Hdf5Builder& file) {
    file.numbers("/a", {3}, {1, 2, 3});
    file.numbers("/offsets", {3}, {0.5, 1.5, 2.5});
  });
  EXPECT_THAT(read().columns, ElementsAre("a", "offsets"));
  EXPECT_THAT(read().offsets, ElementsAre(0, 3));
}

TEST_F(ForeignReaderTest, DatasetsOfOneLengthAreColumnsOfOneSeries) {
  build([](Hdf5Builder& file) {
    file.numbers("/a", {3}, {1, 2, 3});
    file.numbers("/b", {3}, {4, 5, 6});
  });
  EXPECT_THAT(numbers_of(read().values), ElementsAre(1, 4, 2, 5, 3, 6));
  EXPECT_THAT(read().notes, ElementsAre(HasSubstr("read from /, (3,) in each of 2 datasets")));
}

TEST_F(ForeignReaderTest, DatasetsOfSeveralLengthsAreListedAndChosenByTheirNames) {
  build([](Hdf5Builder& file) {
    file.numbers("/a", {3}, {1, 2, 3});
    file.numbers("/b", {2}, {4, 5});
    file.numbers("/c", {3}, {6, 7, 8});
  });
  const std::string all =
      path_ +
      " has several datasets that could be meant: /b (2,), /a, /c (3,); "
      "name one with data.dataset (of `data inspect`: --dataset), or in data.inputs and "
      "data.targets only columns of equal length";
  EXPECT_EQ(refusal(), all);
  EXPECT_THAT(numbers_of(read("/b").values), ElementsAre(4, 5));
  EXPECT_THAT(numbers_of(read("", {"c", "a"}).values), ElementsAre(6, 1, 7, 2, 8, 3));
  EXPECT_EQ(refusal("", {"a", "b"}), all);
}

TEST_F(ForeignReaderTest, AFileWithoutNumbersSaysWhatItHas) {
  build([](Hdf5Builder& file) { file.strings("/names", {"a"}); });
  EXPECT_THAT(refusal(), AllOf(HasSubstr("no dataset of numbers"), HasSubstr("/names (string)")));
}

TEST(ForeignFilesTest, FramesOfAnOldFileAreListed) {
  LONGSHIP_SHARED_FILE(path, "cases/files/h5_pandas_table.h5");
  EXPECT_THAT(message_of<DataError>([&] { read_series_from(path, "", {}); }),
              HasSubstr("/building1/elec/meter1 pandas frame"));
}

TEST(ForeignFilesTest, TypesAndFiltersGiveValuesOrAReason) {
  LONGSHIP_SHARED_FILE(path, "data/hdf5/h5py_types_filters.h5");
  const auto refusal = [&](const std::string& dataset) {
    return message_of<DataError>([&] { read_series_from(path, dataset, {}); });
  };
  const SeriesTable reference = read_series_from(path, "f8", {});
  EXPECT_TRUE(
      at::allclose(read_series_from(path, "be_f8", {}).values, reference.values, 0, 0, true));
  EXPECT_TRUE(at::allclose(read_series_from(path, "gzip_shuffle_fletcher", {}).values,
                           reference.values, 1e-6, 0, true));
  EXPECT_TRUE(
      at::allclose(read_series_from(path, "soft", {}).values, reference.values, 0, 0, true));
  EXPECT_EQ(read_series_from(path, "mask_bool", {}).rows(), 2000);
  EXPECT_THAT(refusal("lzf"), AllOf(HasSubstr("32000"), HasSubstr("lzf")));
  const SeriesTable half = read_series_from(path, "virtual_half_missing", {});
  EXPECT_TRUE(at::allclose(half.values.narrow(0, 0, 2000), reference.values, 0, 0, true));
  EXPECT_TRUE(half.values.narrow(0, 2000, 2000).isnan().all().item<bool>());
  EXPECT_THAT(refusal("dangling"), HasSubstr("soft link to /none"));
  EXPECT_THAT(refusal("compound"), HasSubstr("compound"));
  EXPECT_THAT(refusal("c8"), HasSubstr("not numbers"));
  EXPECT_THAT(refusal("vlen_rows"), HasSubstr("ragged"));
  EXPECT_THAT(refusal("opaque_datetime64"), HasSubstr("opaque"));
  EXPECT_THAT(refusal("str_scalar"), HasSubstr("string"));
  EXPECT_THAT(refusal("empty_growable"), HasSubstr("(0, 6)"));
  LONGSHIP_SHARED_FILE(flat, "data/hdf5/h5py_ragged_flat.h5");
  EXPECT_EQ(read_series_from(flat, "", {}).series_count(), 3);
  LONGSHIP_SHARED_FILE(groups, "data/hdf5/h5py_group_per_series.h5");
  EXPECT_EQ(read_series_from(groups, "JFK", {}).rows(), 1300);
  LONGSHIP_SHARED_FILE(zstd, "data/hdf5/zstd.h5");
  EXPECT_THAT(message_of<DataError>([&] { read_series_from(zstd, "", {}); }), HasSubstr("32015"));
}

}  // namespace
}  // namespace longship::data
