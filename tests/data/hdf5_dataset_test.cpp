#include "data/hdf5_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/error.h"
#include "hdf5_dataset_fixture.h"

namespace longship::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Optional;

using Hdf5DatasetTest = Hdf5DatasetFixture;

TEST_F(Hdf5DatasetTest, TypesAreToldInWords) {
  build([](Hdf5Builder& file) {
    file.numbers("/f8", {1}, {0}, H5T_IEEE_F64BE);
    file.numbers("/u1", {1}, {0}, H5T_STD_U8LE);
    file.numbers("/i2", {1}, {0}, H5T_STD_I16LE);
    file.strings("/text", {"a"});
    file.fixed_strings("/fixed", 5, H5T_STR_NULLPAD, {"a"});
    file.create("/bits", {1}, H5T_STD_B16LE);
  });
  EXPECT_EQ(info("/f8").type, "float64 big-endian");
  EXPECT_EQ(info("/u1").type, "uint8");
  EXPECT_EQ(info("/i2").type, "int16 little-endian");
  EXPECT_EQ(info("/text").type, "string");
  EXPECT_EQ(info("/fixed").type, "string of 5");
  EXPECT_EQ(info("/bits").type, "bit field of 16");
  EXPECT_TRUE(info("/u1").is_number());
  EXPECT_FALSE(info("/bits").is_number());
}

TEST_F(Hdf5DatasetTest, ShapesOfAllRanks) {
  build([](Hdf5Builder& file) {
    file.numbers("/scalar", {}, {1});
    file.numbers("/row", {3}, {1, 2, 3});
    file.numbers("/cube", {1, 2, 2}, {1, 2, 3, 4});
    file.create("/empty", {0}, H5T_IEEE_F32LE);
    const Hdf5Handle null = own(H5Screate(H5S_NULL), H5Sclose, "space");
    own(H5Dcreate2(file.file(), "/null", H5T_IEEE_F32LE, null.get(), H5P_DEFAULT, H5P_DEFAULT,
                   H5P_DEFAULT),
        H5Dclose, "/null");
  });
  EXPECT_EQ(info("/scalar").shape_text(), "scalar");
  EXPECT_EQ(info("/scalar").elements(), 1);
  EXPECT_EQ(info("/row").shape_text(), "(3,)");
  EXPECT_EQ(info("/cube").shape_text(), "(1, 2, 2)");
  EXPECT_EQ(info("/cube").elements(), 4);
  EXPECT_EQ(info("/null").shape_text(), "null");
  EXPECT_EQ(info("/null").elements(), 0);
  EXPECT_EQ(info("/empty").shape_text(), "(0,)");
  EXPECT_EQ(info("/empty").elements(), 0);
}

TEST_F(Hdf5DatasetTest, ChunksAndFiltersComeInTheOrderOfWriting) {
  build([](Hdf5Builder& file) {
    const Hdf5Handle plist = layout();
    const hsize_t chunk = 4;
    check_hdf5(H5Pset_chunk(plist.get(), 1, &chunk), "chunk");
    check_hdf5(H5Pset_shuffle(plist.get()), "shuffle");
    check_hdf5(H5Pset_fletcher32(plist.get()), "fletcher32");
    file.create("/x", {10}, H5T_IEEE_F32LE, plist.get());
    file.numbers("/y", {10}, std::vector<double>(10), H5T_IEEE_F32LE);
  });
  EXPECT_THAT(info("/x").chunk, ElementsAre(4));
  EXPECT_THAT(info("/x").filters, ElementsAre(H5Z_FILTER_SHUFFLE, H5Z_FILTER_FLETCHER32));
  EXPECT_EQ(info("/x").stored_bytes, 0);  // never written
  EXPECT_EQ(info("/x").all_chunks, 3);
  EXPECT_EQ(info("/x").written_chunks, 0);
  EXPECT_FALSE(info("/x").partly_written());
  EXPECT_THAT(info("/y").chunk, IsEmpty());
  EXPECT_EQ(info("/y").stored_bytes, 40);
}

TEST_F(Hdf5DatasetTest, HyperslabsAreReadAndThoseOutsideNamed) {
  build([](Hdf5Builder& file) { file.numbers("/x", {3, 2}, {1, 2, 3, 4, 5, 6}, H5T_STD_I32BE); });
  const Hdf5Handle file = open();
  const Hdf5Dataset dataset(file.get(), path_, "/x");
  std::vector<int64_t> values(2);
  dataset.read(H5T_NATIVE_INT64, {1, 1}, {2, 1}, values.data());
  EXPECT_THAT(values, ElementsAre(4, 6));
  EXPECT_THAT(message_of<DataError>([&] {
                dataset.read(H5T_NATIVE_INT64, {2, 0}, {2, 1}, values.data());
              }),
              HasSubstr("data.h5: /x cannot be read at (2, 0) for (2, 1)"));
}

TEST_F(Hdf5DatasetTest, WrongClassesAreRefusedByName) {
  build([](Hdf5Builder& file) {
    file.numbers("/x", {2}, {1.5, -2});
    file.strings("/text", {"a"});
    file.group("/g");
  });
  const Hdf5Handle file = open();
  const Hdf5Dataset numbers(file.get(), path_, "/x");
  const Hdf5Dataset text(file.get(), path_, "/text");
  EXPECT_THAT(numbers.read_doubles(), ElementsAre(1.5, -2));
  EXPECT_THAT(message_of<DataError>([&] { numbers.read_integers(); }),
              HasSubstr("/x holds float64 little-endian, not integers"));
  EXPECT_THAT(message_of<DataError>([&] { numbers.read_strings(); }), HasSubstr("not strings"));
  EXPECT_THAT(message_of<DataError>([&] { text.read_doubles(); }),
              HasSubstr("/text holds string, not numbers"));
  EXPECT_THAT(message_of<DataError>([&] { Hdf5Dataset(file.get(), path_, "/g"); }),
              HasSubstr("data.h5: /g is a group, not a dataset"));
}

TEST_F(Hdf5DatasetTest, StringsLoseTheirPaddingOnly) {
  const std::vector<std::string> names = {"temp", " x", "", "\xc3\xa5"};
  build([&](Hdf5Builder& file) {
    file.strings("/variable", names);
    file.fixed_strings("/null", 4, H5T_STR_NULLPAD, names);
    file.fixed_strings("/space", 5, H5T_STR_SPACEPAD, names);
  });
  const Hdf5Handle file = open();
  for (const char* path : {"/variable", "/null", "/space"}) {
    EXPECT_EQ(Hdf5Dataset(file.get(), path_, path).read_strings(), names) << path;
  }
}

TEST_F(Hdf5DatasetTest, AttributesAreReadTolerantly) {
  build([](Hdf5Builder& file) {
    file.text_attribute("/", "text", "a");
    file.strings_attribute("/", "texts", {"a", "b"});
    file.number_attribute("/", "number", 2.75);
    const Hdf5Handle root = own(H5Oopen(file.file(), "/", H5P_DEFAULT), H5Oclose, "/");
    const Hdf5Handle null = own(H5Screate(H5S_NULL), H5Sclose, "space");
    own(H5Acreate2(root.get(), "empty", H5T_IEEE_F64LE, null.get(), H5P_DEFAULT, H5P_DEFAULT),
        H5Aclose, "empty");
    // As PyTables writes True.
    const Hdf5Handle scalar = own(H5Screate(H5S_SCALAR), H5Sclose, "space");
    const Hdf5Handle flag =
        own(H5Acreate2(root.get(), "flag", H5T_STD_B8LE, scalar.get(), H5P_DEFAULT, H5P_DEFAULT),
            H5Aclose, "flag");
    const uint8_t yes = 1;
    check_hdf5(H5Awrite(flag.get(), H5T_NATIVE_B8, &yes), "flag");
  });
  const Hdf5Handle file = open();
  EXPECT_THAT(string_attribute(file.get(), "text"), Optional(ElementsAre("a")));
  EXPECT_THAT(string_attribute(file.get(), "texts"), Optional(ElementsAre("a", "b")));
  EXPECT_EQ(text_attribute(file.get(), "texts"), "a");
  EXPECT_FALSE(text_attribute(file.get(), "absent"));
  EXPECT_THAT(number_attribute(file.get(), "number"), Optional(ElementsAre(2.75)));
  EXPECT_THAT(integer_attribute(file.get(), "number"), Optional(ElementsAre(2)));
  EXPECT_THAT(integer_attribute(file.get(), "flag"), Optional(ElementsAre(1)));
  EXPECT_FALSE(string_attribute(file.get(), "number"));
  EXPECT_FALSE(number_attribute(file.get(), "text"));
  EXPECT_FALSE(number_attribute(file.get(), "empty"));
  EXPECT_FALSE(number_attribute(file.get(), "absent"));
}

TEST_F(Hdf5DatasetTest, FloatsWiderThanADoubleAreRefused) {
  build([](Hdf5Builder& file) { file.numbers("/x", {1}, {1}, H5T_NATIVE_LDOUBLE); });
  EXPECT_THAT(unreadable("/x"), AllOf(HasSubstr("data.h5: /x holds float128 little-endian"),
                                      HasSubstr("wider than a double")));
}

TEST(Hdf5RealFilesTest, AreReadOrRefusedByName) {
  const auto refusal = [](const std::string& path, const std::string& object) {
    return message_of<DataError>([&] {
      const Hdf5Handle file = open_hdf5_file(path);
      Hdf5Dataset(file.get(), path, object).read_doubles();
    });
  };
  LONGSHIP_SHARED_FILE(blosc, "cases/files/h5_blosc_bigendian.h5");
  const Hdf5Handle blosc_file = open_hdf5_file(blosc);
  std::string compressed;
  for (const Hdf5Entry& entry : walk_hdf5(blosc_file.get(), blosc)) {
    if (entry.kind == Hdf5Entry::Kind::kDataset) compressed = entry.path;
  }
  EXPECT_THAT(refusal(blosc, compressed),
              AllOf(HasSubstr("32001"), HasSubstr("blosc"), HasSubstr("HDF5_PLUGIN_PATH")));
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
