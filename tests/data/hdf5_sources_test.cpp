#include "data/hdf5_sources.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "data/error.h"
#include "hdf5_dataset_fixture.h"

namespace longship::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Elements [start, start + stride, ...), `count` of them, of a row of ten.
struct Slab {
  hsize_t start;
  hsize_t stride;
  hsize_t count;
};

class Hdf5SourcesTest : public Hdf5DatasetFixture {
 protected:
  // Whether sources that are mapped to the unions of slabs cover a virtual row of ten.
  bool covered(const std::vector<std::vector<Slab>>& sources) const {
    build([&](Hdf5Builder& file) {
      const hsize_t extent = 10;
      const hsize_t most = H5S_UNLIMITED;
      const Hdf5Handle plist = layout();
      const Hdf5Handle space = own(H5Screate_simple(1, &extent, &most), H5Sclose, "space");
      const Hdf5Handle source = own(H5Screate_simple(1, &extent, &most), H5Sclose, "space");
      for (const std::vector<Slab>& slabs : sources) {
        hsize_t elements = 0;
        const hsize_t start = 0;
        for (const Slab& slab : slabs) {
          check_hdf5(
              H5Sselect_hyperslab(space.get(), elements == 0 ? H5S_SELECT_SET : H5S_SELECT_OR,
                                  &slab.start, &slab.stride, &slab.count, nullptr),
              "selection");
          elements = slab.count == H5S_UNLIMITED ? slab.count : elements + slab.count;
        }
        check_hdf5(
            H5Sselect_hyperslab(source.get(), H5S_SELECT_SET, &start, nullptr, &elements, nullptr),
            "selection");
        check_hdf5(H5Pset_virtual(plist.get(), space.get(), ".", "/part", source.get()), "virtual");
      }
      own(H5Dcreate2(file.file(), "/x", H5T_IEEE_F64LE, space.get(), H5P_DEFAULT, plist.get(),
                     H5P_DEFAULT),
          H5Dclose, "/x");
      check_hdf5(H5Sselect_all(space.get()), "selection");
      const Hdf5Handle chunks = layout();
      check_hdf5(H5Pset_chunk(chunks.get(), 1, &extent), "chunk");
      const Hdf5Handle part = own(H5Dcreate2(file.file(), "/part", H5T_IEEE_F64LE, space.get(),
                                             H5P_DEFAULT, chunks.get(), H5P_DEFAULT),
                                  H5Dclose, "/part");
      const std::vector<double> values(extent, 1);
      check_hdf5(
          H5Dwrite(part.get(), H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()),
          "/part");
    });
    const Hdf5Handle file = open();
    return virtual_sources_cover(Hdf5Dataset(file.get(), path_, "/x"));
  }
};

TEST_F(Hdf5SourcesTest, ValuesInAnotherFileMustBeThere) {
  build([](Hdf5Builder& file) {
    const Hdf5Handle plist = layout();
    check_hdf5(H5Pset_external(plist.get(), "raw.bin", 0, 2 * sizeof(float)), "external");
    file.create("/x", {2}, H5T_IEEE_F32LE, plist.get());
  });
  EXPECT_TRUE(info("/x").is_external);
  EXPECT_THAT(unreadable("/x"),
              AllOf(HasSubstr("data.h5: /x keeps its values in another file, raw.bin"),
                    HasSubstr("copy it beside " + path_)));
  const float values[] = {1.5F, -2};
  folder_.write("raw.bin", {reinterpret_cast<const char*>(values), sizeof values});
  EXPECT_THAT(unreadable("/x"), AllOf(HasSubstr("raw.bin, which is not in the folder where the "
                                                "program runs"),
                                      HasSubstr("HDF5_EXTFILE_PREFIX='${ORIGIN}'")));
  ::setenv("HDF5_EXTFILE_PREFIX", "${ORIGIN}", 1);
  EXPECT_EQ(unreadable("/x"), "(nothing was thrown)");
  ::setenv("HDF5_EXTFILE_PREFIX", "/none", 1);
  EXPECT_THAT(unreadable("/x"), HasSubstr("raw.bin, which is not at /none/raw.bin, where "
                                          "HDF5_EXTFILE_PREFIX has it looked for"));
  ::unsetenv("HDF5_EXTFILE_PREFIX");
  const std::filesystem::path former = std::filesystem::current_path();
  std::filesystem::current_path(folder_.path(""));
  const Hdf5Handle file = open();
  EXPECT_THAT(Hdf5Dataset(file.get(), path_, "/x").read_doubles(), ElementsAre(1.5, -2));
  std::filesystem::current_path(former);
}

TEST_F(Hdf5SourcesTest, ValuesInOtherFilesMustBeWhole) {
  const std::string first = folder_.path("first.bin");
  const std::string second = folder_.path("second.bin");
  build([&](Hdf5Builder& file) {
    const Hdf5Handle plist = layout();
    check_hdf5(H5Pset_external(plist.get(), first.c_str(), 4, 8), "external");
    check_hdf5(H5Pset_external(plist.get(), second.c_str(), 0, H5F_UNLIMITED), "external");
    file.create("/x", {5}, H5T_IEEE_F32LE, plist.get());
  });
  folder_.write("first.bin", std::string(11, '\0'));
  folder_.write("second.bin", std::string(12, '\0'));
  EXPECT_THAT(unreadable("/x"),
              HasSubstr("data.h5: /x keeps its values in another file, " + first +
                        ", which is truncated: it should have 12 bytes and has 11"));
  folder_.write("first.bin", std::string(12, '\0'));
  EXPECT_EQ(unreadable("/x"), "(nothing was thrown)");
  folder_.write("second.bin", std::string(8, '\0'));
  EXPECT_THAT(unreadable("/x"), HasSubstr(second + ", which is truncated: it should have 12 bytes "
                                                   "and has 8"));
}

TEST_F(Hdf5SourcesTest, SourcesOfAVirtualDatasetMustBeThere) {
  build([](Hdf5Builder& file) {
    const Hdf5Handle plist = layout();
    const hsize_t extent = 2;
    const Hdf5Handle space = own(H5Screate_simple(1, &extent, nullptr), H5Sclose, "space");
    check_hdf5(H5Pset_virtual(plist.get(), space.get(), "part.h5", "/y", space.get()), "virtual");
    file.create("/x", {2}, H5T_IEEE_F64LE, plist.get());
  });
  EXPECT_TRUE(info("/x").is_virtual);
  const std::string absent = "/x is a virtual dataset whose source /y in part.h5 is not there";
  EXPECT_THAT(unreadable("/x"), HasSubstr(absent));
  { Hdf5Builder(folder_.path("part.h5")).numbers("/other", {2}, {1, 2}); }
  EXPECT_THAT(unreadable("/x"), HasSubstr(absent));
  { Hdf5Builder(folder_.path("part.h5")).numbers("/y", {2}, {1, 2}); }
  const Hdf5Handle file = open();
  EXPECT_THAT(Hdf5Dataset(file.get(), path_, "/x").read_doubles(), ElementsAre(1, 2));
}

TEST_F(Hdf5SourcesTest, CoverageIsThatOfAllMappedElementsTogether) {
  EXPECT_TRUE(covered({{{0, 1, 4}}, {{4, 1, 6}}}));
  EXPECT_TRUE(covered({{{0, 2, 5}}, {{1, 2, 5}}}));
  EXPECT_TRUE(covered({{{0, 1, 2}, {7, 1, 3}}, {{2, 1, 5}}}));
  EXPECT_FALSE(covered({{{0, 1, 4}}, {{5, 1, 5}}}));
  EXPECT_FALSE(covered({{{0, 1, 2}, {8, 1, 2}}, {{2, 1, 5}}}));
  // As many elements as the row has, but not all of them.
  EXPECT_FALSE(covered({{{0, 1, 5}}, {{0, 1, 5}}}));
}

TEST_F(Hdf5SourcesTest, OneGrowingSourceCoversWhatSeveralMayNot) {
  EXPECT_TRUE(covered({{{0, 1, H5S_UNLIMITED}}}));
  EXPECT_FALSE(covered({{{1, 1, H5S_UNLIMITED}}}));
  EXPECT_FALSE(covered({{{0, 2, H5S_UNLIMITED}}, {{1, 2, H5S_UNLIMITED}}}));
}

}  // namespace
}  // namespace longship::data
