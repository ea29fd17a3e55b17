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
