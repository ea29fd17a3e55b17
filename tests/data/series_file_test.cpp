#include "data/series_file.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "../runtime/temporary_folder.h"
#include "data/error.h"
#include "data/hdf5_dataset.h"
#include "hdf5_builder.h"

namespace longship::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SeriesFileTest : public Hdf5Test {
 protected:
  SeriesTable read(const std::vector<std::string>& columns = {}) {
    const Hdf5Handle file = open();
    return read_series_file(file.get(), path_, columns);
  }
};

TEST_F(SeriesFileTest, GivesBackWhatWasWritten) {
  SeriesTable table = make_table({{{1, 2}, {3, 4}}, {{5, 6}}}, 7);
  table.columns = {"temp", "\xc3\xa5 b"};
  table.series = {"one", "two"};
  write_series_file(path_, table, false);
  const SeriesTable back = read();
  EXPECT_EQ(back.columns, table.columns);
  EXPECT_EQ(back.series, table.series);
  EXPECT_EQ(back.offsets, table.offsets);
  EXPECT_EQ(back.time, table.time);
  EXPECT_TRUE(at::equal(back.values, table.values));
  EXPECT_TRUE(at::equal(read({"\xc3\xa5 b"}).values, table.values.narrow(1, 1, 1)));
  EXPECT_THAT(message_of<DataError>([&] { read({"tmp"}); }), HasSubstr("did you mean 'temp'?"));
  EXPECT_THAT(folder_.names(), ElementsAre("data.h5"));
}

TEST_F(SeriesFileTest, FollowsTheDocumentedLayout) {
  write_series_file(path_, make_table({{{1}, {2}, {3}}}, 10), false);
  const Hdf5Handle file = open();
  EXPECT_EQ(string_attribute(file.get(), "format"), (std::vector<std::string>{"longship-series"}));
  EXPECT_EQ(integer_attribute(file.get(), "version"), (std::vector<int64_t>{1}));
  EXPECT_EQ(integer_attribute(file.get(), "step"), (std::vector<int64_t>{10}));
  EXPECT_EQ(string_attribute(file.get(), "columns"), (std::vector<std::string>{"a"}));
  const Hdf5Dataset values(file.get(), path_, "/values");
  EXPECT_EQ(values.info().type, "float32 little-endian");
  EXPECT_THAT(values.info().shape, ElementsAre(3, 1));
  EXPECT_THAT(values.info().chunk, ElementsAre(3, 1));
  EXPECT_EQ(Hdf5Dataset(file.get(), path_, "/time").info().type, "int64 little-endian");
}

TEST_F(SeriesFileTest, ChunksRunAlongTime) {
  SeriesTable table = make_table({{{0}}});
  table.columns.clear();
  for (int i = 0; i < 100; ++i) table.columns.push_back("c" + std::to_string(i));
  table.values = at::zeros({20'000, 100});
  table.offsets = {0, 20'000};
  write_series_file(path_, table, false);
  const Hdf5Handle file = open();
  EXPECT_THAT(Hdf5Dataset(file.get(), path_, "/values").info().chunk, ElementsAre(1310, 100));
}

TEST_F(SeriesFileTest, ThousandsOfColumnsKeepTheirNamesInOrder) {
  SeriesTable table = make_table({{{0}}});
  table.columns.clear();
  for (int i = 0; i < 5000; ++i) {
    std::string name = std::to_string(i);
    table.columns.push_back(name + std::string(40 - name.size(), '_'));
  }
  table.values = at::arange(3 * 5000).to(at::kFloat).view({3, 5000}).contiguous();
  table.offsets = {0, 3};
  write_series_file(path_, table, false);
  EXPECT_EQ(read().columns, table.columns);
  EXPECT_EQ(read({table.columns[4999]}).values[2][0].item<float>(), 14999);
}

TEST_F(SeriesFileTest, AnExistingFileStaysUnlessOverwritten) {
  write_series_file(path_, make_table({{{1}}}), false);
  EXPECT_THAT(message_of<DataError>([&] { write_series_file(path_, make_table({{{2}}}), false); }),
              HasSubstr("exists already"));
  EXPECT_EQ(read().values.item<float>(), 1);
  write_series_file(path_, make_table({{{2}}}), true);
  EXPECT_EQ(read().values.item<float>(), 2);
}

TEST_F(SeriesFileTest, NothingIsLeftOfAWriteThatFails) {
  const std::string inside = folder_.path("none/data.h5");
  EXPECT_THROW(write_series_file(inside, make_table({{{1}}}), false), DataError);
  std::filesystem::create_directory(path_);  // rename onto a folder fails after all was written
  EXPECT_THROW(write_series_file(path_, make_table({{{1}}}), true), DataError);
  EXPECT_THAT(folder_.names(), ElementsAre("data.h5"));
}

TEST_F(SeriesFileTest, ADiskWithoutRoomIsToldBeforeAnythingIsWritten) {
  const tests::SmallDisk disk(folder_.path("disk"));
  if (!disk.mounted()) GTEST_SKIP() << "mounting a small tmpfs is not permitted here";
  SeriesTable table = make_table({{{0, 1}}});
  table.values = at::zeros({200'000, 2});
  table.offsets = {0, 200'000};
  const std::string path = folder_.path("disk/data.h5");
  write_series_file(path, make_table({{{1, 2}}}), false);
  const std::string before = read_bytes(path);
  // 16 bytes a row with its time, 1 % more for chunks and 64 KiB.
  EXPECT_THAT(message_of<DataError>([&] { write_series_file(path, table, true); }),
              ::testing::AllOf(HasSubstr(path + " cannot be written: it needs about 3297536 bytes"),
                               HasSubstr(folder_.path("disk") + " has "), HasSubstr(" free")));
  EXPECT_EQ(read_bytes(path), before);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path("disk")), {}), 1);
  // What fits is written: the estimate is no more than it takes.
  table.values = at::zeros({50'000, 2});
  table.offsets = {0, 50'000};
  write_series_file(folder_.path("disk/fits.h5"), table, false);
}

TEST_F(SeriesFileTest, AFileSystemWithRoomForNoFileIsTold) {
  // The folder itself is one of the two.
  const tests::SmallDisk disk(folder_.path("disk"), "size=1m,nr_inodes=2");
  if (!disk.mounted()) GTEST_SKIP() << "mounting a small tmpfs is not permitted here";
  const std::string path = folder_.path("disk/data.h5");
  write_series_file(path, make_table({{{1}}}), false);
  EXPECT_THAT(message_of<DataError>([&] { write_series_file(path, make_table({{{2}}}), true); }),
              ::testing::AllOf(HasSubstr(path + " cannot be written: " + folder_.path("disk") +
                                         " has bytes free, "),
                               HasSubstr(", but no inode for another file; remove files or name")));
}

TEST_F(SeriesFileTest, StartAndStepReplaceStamps) {
  {
    Hdf5Builder file(path_);
    file.text_attribute("/", "format", "longship-series");
    file.number_attribute("/", "version", 1);
    file.number_attribute("/", "start", 100);
    file.number_attribute("/", "step", 10);
    file.strings_attribute("/", "columns", {"a"});
    file.numbers("/values", {3, 1}, {1, 2, 3}, H5T_IEEE_F32LE);
    file.integers("/offsets", {0, 2, 3});
    file.strings("/series", {"x", "y"});
  }
  EXPECT_THAT(read().time, ElementsAre(100, 110, 100));
}

TEST_F(SeriesFileTest, ContradictionsAndNewerVersionsAreRefused) {
  const auto refusal = [&](double version, const std::vector<int64_t>& offsets) {
    {
      Hdf5Builder file(path_);
      file.text_attribute("/", "format", "longship-series");
      file.number_attribute("/", "version", version);
      file.strings_attribute("/", "columns", {"a"});
      file.numbers("/values", {3, 1}, {1, 2, 3});
      file.integers("/offsets", offsets);
      file.strings("/series", {"x", "y"});
    }
    return message_of<DataError>([&] { read(); });
  };
  EXPECT_THAT(refusal(2, {0, 2, 3}), HasSubstr("version 2"));
  EXPECT_THAT(refusal(1, {0, 2, 4}), HasSubstr("/offsets does not divide the 3 rows"));
  EXPECT_THAT(refusal(1, {0, 3}), HasSubstr("/offsets"));
}

TEST_F(SeriesFileTest, AFlippedByteIsAnErrorAndNoValue) {
  write_series_file(path_, make_table({{{1234.5, 2}, {3, 4}}}, 7), false);
  const float needle = 1234.5F;
  std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const size_t at = bytes.find(std::string(reinterpret_cast<const char*>(&needle), sizeof needle));
  ASSERT_NE(at, std::string::npos);
  file.clear();
  file.seekp(static_cast<std::streamoff>(at));
  file.put(static_cast<char>(bytes[at] ^ 0x40));
  file.close();
  EXPECT_THAT([this] { read(); }, ::testing::ThrowsMessage<DataError>(::testing::AllOf(
                                      HasSubstr("data.h5: /values"), HasSubstr("checksum"))));
}

TEST_F(SeriesFileTest, ATruncatedFileIsSaidToBeShort) {
  write_series_file(path_, make_table({{{1}, {2}}}, 10), false);
  const std::string bytes = read_bytes(path_);
  folder_.write("short.h5", bytes.substr(0, bytes.size() - 100));
  EXPECT_THAT(message_of<DataError>([&] { open_hdf5_file(folder_.path("short.h5")); }),
              ::testing::AllOf(HasSubstr("short.h5 is truncated"),
                               HasSubstr(std::to_string(bytes.size()) + " bytes"),
                               HasSubstr("100 are missing")));
}

TEST_F(SeriesFileTest, StampsOfStartAndStepMustFit) {
  {
    Hdf5Builder file(path_);
    file.text_attribute("/", "format", "longship-series");
    file.number_attribute("/", "version", 1);
    file.number_attribute("/", "start", 9e18);
    file.number_attribute("/", "step", 2e17);
    file.strings_attribute("/", "columns", {"a"});
    file.numbers("/values", {3, 1}, {1, 2, 3}, H5T_IEEE_F32LE);
    file.integers("/offsets", {0, 3});
    file.strings("/series", {"x"});
  }
  EXPECT_THAT(message_of<DataError>([&] { read(); }),
              HasSubstr("data.h5: the time of row 2 of series 'x', start 9000000000000000000 + 2 * "
                        "step 200000000000000000, does not fit"));
}

}  // namespace
}  // namespace longship::data
