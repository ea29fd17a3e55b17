#include "data/hdf5_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/error.h"
#include "data/hdf5_dataset.h"
#include "hdf5_builder.h"
#include "test_files.h"

namespace longship::data {
namespace {

using ::testing::HasSubstr;

std::string opening(const std::string& path) {
  return message_of<DataError>([&] { open_hdf5_file(path); });
}

TEST(Hdf5FileTest, SaysWhatAFileIsInstead) {
  const TemporaryFolder folder;
  EXPECT_THAT(opening(folder.write("a", "")), HasSubstr("is empty"));
  EXPECT_THAT(opening(folder.write("b", "a,b\n1,2\n")), HasSubstr("data import"));
  EXPECT_THAT(opening(folder.write("c", std::string("CDF\x01\0\0", 6))),
              HasSubstr("NetCDF classic"));
  EXPECT_THAT(opening(folder.write("d", "\x1f\x8b\x08")), HasSubstr("gzip"));
  EXPECT_THAT(opening(folder.write("e", std::string("\x01\x02\0\x03", 4))), HasSubstr("signature"));
  EXPECT_THAT(opening(folder.path("none")), HasSubstr("no such file"));
  EXPECT_THAT(opening(folder.path("")), HasSubstr("is a folder"));
  EXPECT_THAT(opening("/dev/zero"), HasSubstr("not a regular file"));
}

TEST(Hdf5FileTest, WalksLinksAndCyclesAndNamesDanglingOnes) {
  const TemporaryFolder folder;
  {
    Hdf5Builder file(folder.path("a.h5"));
    file.group("/g");
    file.numbers("/g/x", {2}, {1, 2});
    check_hdf5(H5Lcreate_soft("/g", file.file(), "/g/again", H5P_DEFAULT, H5P_DEFAULT), "link");
    check_hdf5(H5Lcreate_soft("/none", file.file(), "/lost", H5P_DEFAULT, H5P_DEFAULT), "link");
    check_hdf5(H5Lcreate_external("other.h5", "/y", file.file(), "/away", H5P_DEFAULT, H5P_DEFAULT),
               "link");
  }
  const Hdf5Handle file = open_hdf5_file(folder.path("a.h5"));
  std::vector<std::string> seen;
  std::string notes;
  for (const Hdf5Entry& entry : walk_hdf5(file.get(), "a.h5")) {
    seen.push_back(entry.path);
    notes += entry.note + "\n";
  }
  EXPECT_THAT(seen, ::testing::ElementsAre("/away", "/g", "/g/x", "/lost"));
  EXPECT_THAT(notes, HasSubstr("soft link to /none"));
  EXPECT_THAT(message_of<DataError>([&] { open_hdf5_object(file.get(), "a.h5", "/away"); }),
              ::testing::AllOf(HasSubstr("/away"), HasSubstr("external link to /y in other.h5")));
  EXPECT_THAT(message_of<DataError>([&] { open_hdf5_object(file.get(), "a.h5", "/nowhere"); }),
              HasSubstr("has no /nowhere"));
  {
    Hdf5Builder other(folder.path("other.h5"));
    other.numbers("/y", {2}, {7, 8});
  }
  // Relative to the file that holds the link, wherever the program runs.
  EXPECT_EQ(Hdf5Dataset(file.get(), folder.path("a.h5"), "/away").read_doubles(),
            (std::vector<double>{7, 8}));
}

TEST(Hdf5FileTest, SharedFilesAreReadOrNamed) {
  const auto refusal = [](const std::string& path, const std::string& object) {
    return message_of<DataError>([&] {
      const Hdf5Handle file = open_hdf5_file(path);
      Hdf5Dataset(file.get(), path, object).read_doubles();
    });
  };
  LONGSHIP_SHARED_FILE(classic, "cases/files/nc_classic_not_hdf5.nc");
  EXPECT_THAT(opening(classic), HasSubstr("NetCDF classic"));
  LONGSHIP_SHARED_FILE(blosc, "cases/files/h5_blosc_bigendian.h5");
  const Hdf5Handle blosc_file = open_hdf5_file(blosc);
  std::string compressed;
  for (const Hdf5Entry& entry : walk_hdf5(blosc_file.get(), blosc)) {
    if (entry.kind == Hdf5Entry::Kind::kDataset) compressed = entry.path;
  }
  EXPECT_THAT(refusal(blosc, compressed), ::testing::AllOf(HasSubstr("32001"), HasSubstr("blosc"),
                                                           HasSubstr("HDF5_PLUGIN_PATH")));
  LONGSHIP_SHARED_FILE(external, "cases/files/h5_external_raw_missing.h5");
  const Hdf5Handle external_file = open_hdf5_file(external);
  EXPECT_THAT(refusal(external, walk_hdf5(external_file.get(), external).front().path),
              HasSubstr("another file"));
  LONGSHIP_SHARED_FILE(times, "cases/files/h5_time_class.h5");
  EXPECT_THAT(refusal(times, "/earr64"), HasSubstr("HDF5 time class"));
  LONGSHIP_SHARED_FILE(wide, "cases/files/h5_f64_bigendian.h5");
  const Hdf5Handle wide_file = open_hdf5_file(wide);
  EXPECT_EQ(Hdf5Dataset(wide_file.get(), wide, "/TestArray").info().type, "float64 big-endian");
  LONGSHIP_SHARED_FILE(sums, "cases/files/h5_fletcher32.hdf5");
  const TemporaryFolder folder;
  std::string bytes = read_bytes(sums);
  bytes[5393] = static_cast<char>(bytes[5393] ^ 1);
  EXPECT_THAT(refusal(folder.write("flipped.h5", bytes), "/float/float64"),
              HasSubstr("cannot be read"));
}

}  // namespace
}  // namespace longship::data
