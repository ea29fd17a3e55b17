#include "data/hdf5_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/error.h"
#include "data/hdf5_dataset.h"
#include "hdf5_builder.h"

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

TEST(Hdf5FileTest, GroupsAreWhatAnObjectIsIn) {
  EXPECT_EQ(group_of("/values"), "/");
  EXPECT_EQ(group_of("/a/b"), "/a");
  EXPECT_EQ(group_of("/a/b/c"), "/a/b");
}

TEST(Hdf5FileTest, RealNetcdfClassicIsNamed) {
  LONGSHIP_SHARED_FILE(classic, "cases/files/nc_classic_not_hdf5.nc");
  EXPECT_THAT(opening(classic), HasSubstr("NetCDF classic"));
}

}  // namespace
}  // namespace longship::data
