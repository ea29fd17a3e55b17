#include "data/foreign_reader.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "data/error.h"
#include "data/pandas_reader.h"
#include "data/time_axis.h"
#include "data/time_parser.h"
#include "hdf5_builder.h"
#include "test_files.h"

namespace longship::data {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ForeignReaderTest : public ::testing::Test {
 protected:
  void build(const std::function<void(Hdf5Builder&)>& fill) {
    Hdf5Builder file(path_);
    fill(file);
  }
  SeriesTable read(const std::string& dataset = "", const std::vector<std::string>& columns = {}) {
    return read_series_from(path_, dataset, columns);
  }
  std::string refusal(const std::string& dataset = "",
                      const std::vector<std::string>& columns = {}) {
    return message_of<DataError>([&] { read(dataset, columns); });
  }
  TemporaryFolder folder_;
  std::string path_ = folder_.path("data.h5");
};

std::vector<float> values(const SeriesTable& table) {
  const at::Tensor flat = table.values.flatten();
  return {flat.const_data_ptr<float>(), flat.const_data_ptr<float>() + flat.numel()};
}

TEST_F(ForeignReaderTest, TheOnlyArrayIsTakenWithNamesAndTimeBesideIt) {
  build([](Hdf5Builder& file) {
    file.numbers("/x", {3, 2}, {1, 2, 3, 4, 5, 6}, H5T_STD_I32BE);
    file.strings_attribute("/x", "columns", {"a", "b"});
    file.numbers("/time", {3}, {0, 1, 2});
    file.text_attribute("/time", "units", "hours since 2013-01-01");
  });
  const SeriesTable table = read("", {"b"});
  EXPECT_THAT(values(table), ElementsAre(2, 4, 6));
  EXPECT_EQ(format_time(table.time[2]), "2013-01-01T02:00:00Z");
  EXPECT_THAT(table.series, ElementsAre("data"));
}

TEST_F(ForeignReaderTest, WidthsAndByteOrdersAreConverted) {
  const std::vector<hid_t> types = {H5T_IEEE_F64BE, H5T_IEEE_F32BE, H5T_STD_I16BE, H5T_STD_U8LE,
                                    H5T_STD_I64BE};
  for (const hid_t type : types) {
    build([type](Hdf5Builder& file) { file.numbers("/x", {3, 1}, {1, 100, 7}, type); });
    EXPECT_THAT(values(read()), ElementsAre(1, 100, 7));
  }
}

TEST_F(ForeignReaderTest, PackedValuesAreDecoded) {
  build([](Hdf5Builder& file) {
    file.numbers("/temp", {3}, {3902, -32768, 100}, H5T_STD_I16LE);
    file.number_attribute("/temp", "scale_factor", 0.01);
    file.number_attribute("/temp", "add_offset", 1);
    file.number_attribute("/temp", "_FillValue", -32768);
    file.numbers("/humid", {3}, {1, 2, 3});
  });
  const SeriesTable table = read("", {"temp", "humid"});
  EXPECT_FLOAT_EQ(table.values[0][0].item<float>(), 40.02f);
  EXPECT_TRUE(std::isnan(table.values[1][0].item<float>()));
  EXPECT_EQ(table.values[2][1].item<float>(), 3);
}

TEST_F(ForeignReaderTest, ThreeDimensionsAreSeriesTimeColumns) {
  build([](Hdf5Builder& file) {
    file.numbers("/x", {2, 3, 2}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
    file.integers("/time", {1'000'000'000, 1'000'000'001, 1'000'000'002});
  });
  const SeriesTable table = read("x", {"x_1"});
  EXPECT_THAT(table.offsets, ElementsAre(0, 3, 6));
  EXPECT_THAT(values(table), ElementsAre(1, 3, 5, 7, 9, 11));
  EXPECT_THAT(table.series, ElementsAre("data_0", "data_1"));
  EXPECT_EQ(table.time[4], 1'000'000'001'000'000'000);
  EXPECT_THAT(table.notes, Contains(HasSubstr("taken as seconds")));
}

TEST_F(ForeignReaderTest, OffsetsBesideTheValuesCutSeries) {
  build([](Hdf5Builder& file) {
    file.numbers("/values", {4, 1}, {1, 2, 3, 4});
    file.integers("/offsets", {0, 3, 4});
    file.strings("/series_id", {"x", "y"});
  });
  const SeriesTable table = read();
  EXPECT_THAT(table.offsets, ElementsAre(0, 3, 4));
  EXPECT_THAT(table.series, ElementsAre("x", "y"));
  build([](Hdf5Builder& file) {
    file.numbers("/values", {4, 1}, {1, 2, 3, 4});
    file.integers("/offsets", {0, 3});
  });
  EXPECT_THAT(refusal(), HasSubstr("/offsets stands beside"));
}

TEST_F(ForeignReaderTest, SeveralCandidatesAreListed) {
  build([](Hdf5Builder& file) {
    file.numbers("/x", {3, 1}, {1, 2, 3});
    file.group("/g");
    file.numbers("/g/y", {2, 1}, {4, 5});
  });
  EXPECT_THAT(refusal(),
              AllOf(HasSubstr("/x (3, 1)"), HasSubstr("/g/y (2, 1)"), HasSubstr("data.dataset")));
  EXPECT_THAT(values(read("g")), ElementsAre(4, 5));
  EXPECT_THAT(values(read("/x")), ElementsAre(1, 2, 3));
  EXPECT_THAT(refusal("/z"), HasSubstr("has no /z"));
}

TEST_F(ForeignReaderTest, OddShapesAndClassesAreRefusedByName) {
  build([](Hdf5Builder& file) {
    file.strings("/names", {"a"});
    file.numbers("/scalar", {}, {1});
    file.numbers("/wide", {2, 5}, std::vector<double>(10, 0));
    file.numbers("/many", {1, 1, 1, 1}, {0});
  });
  EXPECT_THAT(refusal("/names"), HasSubstr("/names holds string, not numbers"));
  EXPECT_THAT(refusal("/scalar"), HasSubstr("/scalar is scalar"));
  EXPECT_THAT(refusal("/wide"), HasSubstr("more columns than rows"));
  EXPECT_THAT(refusal("/many"), HasSubstr("4 dimensions"));
  build([](Hdf5Builder& file) { file.strings("/names", {"a"}); });
  EXPECT_THAT(refusal(), AllOf(HasSubstr("no dataset of numbers"), HasSubstr("/names (string)")));
}

TEST(TimeAxisTest, DecodesUnits) {
  EXPECT_THAT(*decode_time({0, 1.5}, "hours since 1970-01-01 00:00:00", "standard", "t"),
              ElementsAre(0, 5'400'000'000'000));
  EXPECT_THAT(*decode_time({2}, "days since 1970-01-02", "", "t"),
              ElementsAre(int64_t{3} * 86'400'000'000'000));
  EXPECT_THAT(*decode_time({7}, "ns", "", "t"), ElementsAre(7));
  EXPECT_FALSE(decode_time({0}, "months since 1970-01-01", "", "t"));
  EXPECT_FALSE(decode_time({0}, "days since 1970-01-01", "360_day", "t"));
  EXPECT_FALSE(decode_time({0}, "metres", "", "t"));
  EXPECT_THROW(decode_time({1e12}, "days since 1970-01-01", "", "t"), DataError);
}

TEST(PandasNamesTest, AreUnpickledFromText) {
  EXPECT_THAT(unpickle_strings("(lp0\nVtemp\np1\naVwind \\u00e5\np2\na.", "a"),
              ElementsAre("temp", "wind \xc3\xa5"));
  EXPECT_THAT(unpickle_strings("(lp1\nS'power'\np2\naI7\na.", "a"), ElementsAre("power", "7"));
  EXPECT_THAT(unpickle_strings("(lp1\n(S'p'\np2\nS'a'\ntp4\na(g2\nVb\ntp6\na.", "a"),
              ElementsAre("p_a", "p_b"));
  EXPECT_THROW(unpickle_strings("(dp0\n.", "a"), DataError);
  EXPECT_THROW(unpickle_strings("\x80\x04]", "a"), DataError);
}

TEST(ForeignFilesTest, PandasFramesOfBothFormatsAgree) {
  LONGSHIP_SHARED_FILE(fixed_file, "data/hdf5/pandas_fixed_ns.h5");
  LONGSHIP_SHARED_FILE(zlib_file, "data/hdf5/pandas_fixed_zlib.h5");
  LONGSHIP_SHARED_FILE(table_file, "data/hdf5/pandas_table.h5");
  const SeriesTable fixed = read_series_from(fixed_file, "", {});
  const SeriesTable table = read_series_from(table_file, "df", {});
  EXPECT_THAT(fixed.columns,
              ElementsAre("temp", "dewp", "humid", "wind_speed", "pressure", "visib"));
  EXPECT_EQ(fixed.rows(), 2000);
  EXPECT_FLOAT_EQ(fixed.values[0][0].item<float>(), 39.02f);
  EXPECT_EQ(format_time(fixed.time[0]), "2013-01-01T06:00:00Z");
  EXPECT_EQ(table.columns, fixed.columns);
  EXPECT_EQ(table.time, fixed.time);
  EXPECT_TRUE(at::allclose(table.values, fixed.values, 0, 0, true));
  EXPECT_EQ(read_series_from(zlib_file, "", {}).rows(), 2000);
  EXPECT_TRUE(at::equal(read_series_from(table_file, "", {"visib", "temp"}).values.select(1, 1),
                        fixed.values.select(1, 0)));
}

TEST(ForeignFilesTest, OldPandasTablesAreRead) {
  LONGSHIP_SHARED_FILE(path, "cases/files/h5_pandas_table.h5");
  EXPECT_THAT(message_of<DataError>([&] { read_series_from(path, "", {}); }),
              HasSubstr("/building1/elec/meter1"));
  const SeriesTable table = read_series_from(path, "/building1/elec/meter1", {});
  EXPECT_EQ(table.rows(), 14);
  EXPECT_THAT(table.columns, ElementsAre("power_active", "power_reactive", "power_apparent",
                                         "cumulative energy_apparent", "energy_reactive"));
  EXPECT_EQ(table.time.size(), 14U);
}

TEST(ForeignFilesTest, PackedNetcdfGivesTheMeasuredValues) {
  LONGSHIP_SHARED_FILE(packed, "data/hdf5/netcdf4_packed.nc");
  const SeriesTable table = read_series_from(packed, "", {"temp"});
  EXPECT_EQ(table.rows(), 2003);
  EXPECT_NEAR(table.values[0][0].item<float>(), 39.02, 1e-4);
  EXPECT_FALSE(table.time.empty());
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
