#include "data/inspect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "data/series_file.h"
#include "hdf5_builder.h"
#include "test_files.h"

namespace longship::data {
namespace {

using ::testing::HasSubstr;

TEST(InspectTest, StatisticsTellOfColumnsThatFloat32DoesNotHold) {
  const TemporaryFolder folder;
  {
    Hdf5Builder file(folder.path("a.h5"));
    std::vector<double> values;
    for (int row = 0; row < 20; ++row) values.push_back(1e9 + row);
    file.numbers("/x", {20}, values);
  }
  const FileInspection seen = inspect_file(folder.path("a.h5"), "", true);
  EXPECT_TRUE(seen.readable);
  EXPECT_EQ(seen.statistics.at(0).count, 20);
  EXPECT_THAT(seen.notes, ::testing::Contains(::testing::AllOf(
                              HasSubstr("/x: column 'x' has in rows 0 and 1 the values 1000000000"),
                              HasSubstr("; training refuses the column as it is"))));
}

TEST(InspectTest, DescribesASeriesFileWithoutItsValues) {
  const TemporaryFolder folder;
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  write_series_file(folder.path("a.h5"), make_table({{{1, 2}, {kNaN, 4}}, {{3, INFINITY}}}, 60),
                    false);
  FileInspection seen = inspect_file(folder.path("a.h5"), "", false);
  EXPECT_EQ(seen.format, "longship-series");
  EXPECT_TRUE(seen.readable);
  EXPECT_EQ(seen.rows, 3);
  EXPECT_EQ(seen.step_ns, 60);
  ASSERT_EQ(seen.series.size(), 2U);
  EXPECT_EQ(seen.series[0].last_time, 60);
  EXPECT_TRUE(seen.statistics.empty());
  seen = inspect_file(folder.path("a.h5"), "", true);
  ASSERT_EQ(seen.statistics.size(), 2U);
  EXPECT_EQ(seen.statistics[0].count, 2);
  EXPECT_EQ(seen.statistics[0].missing, 1);
  EXPECT_EQ(seen.statistics[0].mean, 2);
  EXPECT_EQ(seen.statistics[0].deviation, 1);
  EXPECT_EQ(seen.statistics[1].infinite, 1);
  EXPECT_EQ(seen.statistics[1].least, 2);
  EXPECT_EQ(seen.statistics[1].most, 4);
}

TEST(InspectTest, ListsEveryObjectOfAForeignFile) {
  const TemporaryFolder folder;
  {
    Hdf5Builder file(folder.path("a.h5"));
    file.numbers("/x", {3, 1}, {1, 2, 3}, H5T_IEEE_F32BE);
    file.numbers("/y", {3, 2}, {1, 2, 3, 4, 5, 6});
    file.strings("/names", {"a"});
  }
  const FileInspection seen = inspect_file(folder.path("a.h5"), "", false);
  ASSERT_EQ(seen.objects.size(), 3U);
  EXPECT_EQ(seen.objects[0].type, "string");
  EXPECT_EQ(seen.objects[1].type, "float32 big-endian");
  EXPECT_EQ(seen.objects[2].shape, "(3, 2)");
  EXPECT_FALSE(seen.readable);
  EXPECT_THAT(seen.reason, HasSubstr("data.dataset"));
  EXPECT_TRUE(inspect_file(folder.path("a.h5"), "/y", false).readable);
}

class InspectFileTest : public Hdf5Test {
 protected:
  // A series file of three rows in two series, without its time.
  static void fill(Hdf5Builder& file) {
    file.text_attribute("/", "format", "longship-series");
    file.number_attribute("/", "version", 1);
    file.strings_attribute("/", "columns", {"a"});
    file.numbers("/values", {3, 1}, {1, 2, 3}, H5T_IEEE_F32LE);
    file.integers("/offsets", {0, 2, 3});
    file.strings("/series", {"x", "y"});
  }
  // Bytes of a chunk are changed, so that reading the values is an error.
  void spoil(const std::string& bytes_of_values) const {
    std::string bytes = read_bytes(path_);
    const size_t at = bytes.find(bytes_of_values);
    ASSERT_NE(at, std::string::npos);
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    folder_.write("data.h5", bytes);
  }
};

TEST_F(InspectFileTest, ATimeOfAnotherLengthIsTheReasonNotToReadASeriesFile) {
  build([](Hdf5Builder& file) {
    fill(file);
    file.integers("/time", {1, 2});
  });
  const FileInspection seen = inspect_file(path_, "", false);
  EXPECT_FALSE(seen.readable);
  EXPECT_THAT(seen.reason, HasSubstr("/time has 2 stamps for 3 rows"));
}

TEST_F(InspectFileTest, StartAndStepGiveTheTimesOfASeriesFile) {
  build([](Hdf5Builder& file) {
    fill(file);
    file.number_attribute("/", "start", 100);
    file.number_attribute("/", "step", 10);
  });
  const FileInspection seen = inspect_file(path_, "", false);
  EXPECT_EQ(seen.step_ns, 10);
  ASSERT_EQ(seen.series.size(), 2U);
  EXPECT_EQ(seen.series[0].last_time, 110);
  EXPECT_EQ(seen.series[1].first_time, 100);
}

TEST_F(InspectFileTest, ValuesOfAForeignFileAreReadOnlyForStatistics) {
  const std::vector<double> values = {1234.5, 2345.25, 3456.125};
  const std::string bytes(reinterpret_cast<const char*>(values.data()), 24);
  build([&](Hdf5Builder& file) {
    const Hdf5Handle plist = own(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, "property list");
    const hsize_t shape[] = {3, 1};
    check_hdf5(H5Pset_chunk(plist.get(), 2, shape), "chunk");
    check_hdf5(H5Pset_fletcher32(plist.get()), "fletcher32");
    file.create("/x", {3, 1}, H5T_IEEE_F64LE, plist.get());
    const Hdf5Handle set = own(H5Dopen2(file.file(), "/x", H5P_DEFAULT), H5Dclose, "/x");
    check_hdf5(H5Dwrite(set.get(), H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()),
               "/x");
    file.integers("/offsets", {0, 1, 3});
    file.integers("/time", {1'600'000'000, 1'600'000'000, 1'600'000'060});
  });
  spoil(bytes);
  const FileInspection seen = inspect_file(path_, "", false);
  EXPECT_TRUE(seen.readable) << seen.reason;
  EXPECT_EQ(seen.rows, 3);
  EXPECT_EQ(seen.step_ns, 60'000'000'000);
  ASSERT_EQ(seen.series.size(), 2U);
  EXPECT_EQ(seen.series[1].rows, 2);
  EXPECT_FALSE(inspect_file(path_, "", true).readable);
}

TEST_F(InspectFileTest, ColumnsAndFramesAreDescribedWithoutTheirValuesToo) {
  build([](Hdf5Builder& file) {
    file.numbers("/a", {3}, {1, 2, 1e300});  // beyond float32, which only reading tells
    file.numbers("/b", {3}, {4, 5, 6});
  });
  EXPECT_EQ(inspect_file(path_, "", false).columns, (std::vector<std::string>{"a", "b"}));
  EXPECT_THAT(inspect_file(path_, "", true).reason, HasSubstr("beyond the range of float32"));
  for (const char* name : {"data/hdf5/pandas_fixed.h5", "data/hdf5/pandas_table.h5"}) {
    const auto found = shared_file(name);
    if (!found) continue;
    const std::string frame = std::string(name).find("table") == std::string::npos ? "" : "df";
    const FileInspection outline = inspect_file(*found, frame, false);
    const FileInspection whole = inspect_file(*found, frame, true);
    EXPECT_TRUE(outline.readable) << name << ": " << outline.reason;
    EXPECT_EQ(outline.columns, whole.columns) << name;
    EXPECT_EQ(outline.rows, whole.rows) << name;
    EXPECT_EQ(outline.step_ns, whole.step_ns) << name;
  }
}

TEST_F(InspectFileTest, ADatasetOfWhichAPartWasWrittenIsSaid) {
  build([](Hdf5Builder& file) { file.partly_written("/x", 10, 4, 5); });
  const FileInspection seen = inspect_file(path_, "", false);
  ASSERT_EQ(seen.objects.size(), 1U);
  EXPECT_THAT(seen.objects[0].note, HasSubstr("partly written: 2 of 3 chunks"));
}

TEST(InspectTest, EveryKeptFileIsListedWithoutAnError) {
  LONGSHIP_SHARED_FILE(lzo, "cases/files/h5_lzo.h5");
  const FileInspection seen = inspect_file(lzo, "", true);
  bool named = false;
  for (const InspectedObject& object : seen.objects) {
    for (const Filter& filter : object.filters)
      named = named || (filter.name == "lzo" && !filter.usable);
  }
  EXPECT_TRUE(named);
  for (const char* name :
       {"elink.h5", "h5_8d_no_storage.hdf5", "h5_blosc_bigendian.h5", "h5_chunked_be_extendible.h5",
        "h5_dangling_external_link.hdf5", "h5_external_raw_missing.h5", "h5_f64_bigendian.h5",
        "h5_fletcher32.hdf5", "h5_float_specials.hdf5", "h5_float_widths.h5",
        "h5_links_and_udlink.h5", "h5_pandas_table.h5", "h5_scalar_null.hdf5", "h5_strings.hdf5",
        "h5_szip.h5", "h5_time_class.h5", "h5_vlen.hdf5"}) {
    LONGSHIP_SHARED_FILE(path, std::string("cases/files/") + name);
    const FileInspection one = inspect_file(path, "", true);
    EXPECT_FALSE(one.objects.empty()) << name;
    EXPECT_TRUE(one.readable || !one.reason.empty()) << name;
  }
}

}  // namespace
}  // namespace longship::data
