#include "data/array_reader.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/error.h"
#include "data/time_parser.h"
#include "hdf5_builder.h"

namespace longship::data {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::FloatEq;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsNan;

class ArrayReaderTest : public Hdf5Test {
 protected:
  SeriesTable read(const std::string& dataset, const std::vector<std::string>& columns = {}) const {
    const Hdf5Handle file = open();
    return read_array(file.get(), path_, dataset, columns);
  }
  SeriesTable read_columns(const std::vector<std::string>& datasets,
                           const std::vector<std::string>& columns = {}) const {
    const Hdf5Handle file = open();
    return read_column_datasets(file.get(), path_, datasets, columns);
  }
  std::string refusal(const std::string& dataset,
                      const std::vector<std::string>& columns = {}) const {
    return message_of<DataError>([&] { read(dataset, columns); });
  }
  Packing packing(const std::string& dataset) {
    const Hdf5Handle file = open();
    notes_.clear();
    return packing_of(Hdf5Dataset(file.get(), path_, dataset), notes_);
  }
  std::vector<std::string> notes_;
};

TEST_F(ArrayReaderTest, ColumnsThatFloat32DoesNotHoldAreListed) {
  std::vector<double> values;
  for (int row = 0; row < 20; ++row) values.push_back(1e9 + row);
  build([&](Hdf5Builder& file) {
    file.numbers("/a", {20}, std::vector<double>(20, 1e9));
    file.numbers("/b", {20}, values, H5T_STD_I64LE);
  });
  EXPECT_THAT(read("/b").lost, ElementsAre(HasSubstr("/b: column 'b' has in rows 0 and 1")));
  EXPECT_THAT(read_columns({"/a", "/b"}).lost, ElementsAre(HasSubstr("/b: column 'b' has")));
  EXPECT_THAT(read_columns({"/a", "/b"}, {"a"}).lost, IsEmpty());
}

TEST_F(ArrayReaderTest, NamesComeFromTheAttributeTheDatasetBesideOrTheArray) {
  const std::vector<double> values = {1, 2, 3, 4, 5, 6};
  build([&](Hdf5Builder& file) {
    file.numbers("/x", {3, 2}, values);
    file.group("/g");
    file.numbers("/g/x", {3, 2}, values);
    file.strings("/g/features", {"c", "d"});
    file.strings("/g/names", {"only one"});
    file.numbers("/g/y", {3, 2}, values);
    file.strings_attribute("/g/y", "columns", {"a", "b"});
    file.numbers("/g/_nc4_non_coord_z", {3}, {1, 2, 3});
  });
  EXPECT_THAT(read("/x").columns, ElementsAre("x_0", "x_1"));
  EXPECT_THAT(read("/x").notes, Contains(HasSubstr("/x has no names of columns; called x_0, x_1")));
  EXPECT_THAT(read("/g/x").columns, ElementsAre("c", "d"));
  EXPECT_THAT(read("/g/x").notes, IsEmpty());
  EXPECT_THAT(read("/g/y", {"b"}).columns, ElementsAre("b"));
  EXPECT_THAT(numbers_of(read("/g/y", {"b"}).values), ElementsAre(2, 4, 6));
  EXPECT_THAT(refusal("/g/y", {"B"}), HasSubstr("/g/y has no column 'B'"));
  EXPECT_THAT(read("/g/_nc4_non_coord_z").columns, ElementsAre("z"));
}

TEST_F(ArrayReaderTest, ThreeDimensionsAreSeriesTimeColumns) {
  build([](Hdf5Builder& file) {
    file.numbers("/x", {2, 3, 2}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
    file.integers("/time", {1'000'000'000, 1'000'000'001, 1'000'000'002});
  });
  const SeriesTable table = read("/x", {"x_1"});
  EXPECT_THAT(table.offsets, ElementsAre(0, 3, 6));
  EXPECT_THAT(numbers_of(table.values), ElementsAre(1, 3, 5, 7, 9, 11));
  EXPECT_THAT(table.series, ElementsAre("data_0", "data_1"));
  EXPECT_EQ(table.time[4], 1'000'000'001'000'000'000);
  EXPECT_THAT(table.notes, Contains(HasSubstr("taken as seconds")));
}

TEST_F(ArrayReaderTest, OffsetsBesideTheValuesCutSeries) {
  build([](Hdf5Builder& file) {
    file.numbers("/values", {4, 1}, {1, 2, 3, 4});
    file.integers("/offsets", {0, 3, 4});
    file.strings("/series_id", {"x", "y"});
  });
  const SeriesTable table = read("/values");
  EXPECT_THAT(table.offsets, ElementsAre(0, 3, 4));
  EXPECT_THAT(table.series, ElementsAre("x", "y"));
  for (const std::vector<int64_t>& wrong :
       {std::vector<int64_t>{0, 3}, {1, 4}, {0, 3, 2, 4}, {0, 5}, {4}}) {
    build([&](Hdf5Builder& file) {
      file.numbers("/values", {4, 1}, {1, 2, 3, 4});
      file.integers("/offsets", wrong);
    });
    EXPECT_THAT(refusal("/values"), HasSubstr("/offsets stands beside the values but does not cut "
                                              "their 4 rows"));
  }
}

TEST_F(ArrayReaderTest, OffsetsBesideColumnDatasetsCutSeries) {
  const auto fill = [](Hdf5Builder& file, const std::vector<int64_t>& offsets) {
    file.numbers("/temp", {4}, {1, 2, 3, 4});
    file.numbers("/humid", {4}, {5, 6, 7, 8});
    file.integers("/offsets", offsets);
    file.strings("/ids", {"x", "y"});
  };
  build([&](Hdf5Builder& file) { fill(file, {0, 3, 4}); });
  const SeriesTable table = read_columns({"/temp", "/humid"});
  EXPECT_THAT(table.offsets, ElementsAre(0, 3, 4));
  EXPECT_THAT(table.series, ElementsAre("x", "y"));
  EXPECT_THAT(numbers_of(table.values), ElementsAre(1, 5, 2, 6, 3, 7, 4, 8));
  build([&](Hdf5Builder& file) { fill(file, {0, 3}); });
  EXPECT_THAT(message_of<DataError>([&] {
                read_columns({"/temp", "/humid"});
              }),
              HasSubstr("/offsets stands beside the values but does not cut their 4 rows"));
}

TEST_F(ArrayReaderTest, ATimeAxisOfAnotherLengthIsNotTaken) {
  build([](Hdf5Builder& file) {
    file.numbers("/x", {2, 1}, {1, 2});
    file.integers("/time", {1'000'000'000, 1'000'000'001, 1'000'000'002});
    file.integers("/date", {5, 6});
  });
  const SeriesTable table = read("/x");
  EXPECT_THAT(table.time, IsEmpty());
  EXPECT_THAT(table.notes, Contains(HasSubstr("/date has no units; rows are taken without time")));
}

TEST_F(ArrayReaderTest, PackingFollowsTheAttributesOfNetcdf) {
  build([](Hdf5Builder& file) {
    file.numbers("/x", {1}, {0}, H5T_STD_I16LE);
    file.number_attribute("/x", "scale_factor", 0.01);
    file.number_attribute("/x", "add_offset", 1);
    file.number_attribute("/x", "_FillValue", -32768);
    file.number_attribute("/x", "missing_value", -1);
    file.numbers("/plain", {1}, {0});
    file.numbers("/unsigned", {1}, {0}, H5T_STD_I8LE);
    file.text_attribute("/unsigned", "_Unsigned", "true");
    file.numbers("/signed", {1}, {0}, H5T_STD_I8LE);
    file.text_attribute("/signed", "_Unsigned", "false");
  });
  const Packing packed = packing("/x");
  EXPECT_EQ(packed.scale, 0.01);
  EXPECT_EQ(packed.offset, 1);
  EXPECT_THAT(packed.missing, ElementsAre(-32768, -1));
  EXPECT_TRUE(packing("/plain").identity());
  EXPECT_TRUE(packing("/signed").identity());
  EXPECT_THAT(message_of<DataError>([&] { packing("/unsigned"); }),
              HasSubstr("/unsigned has the attribute _Unsigned"));
}

TEST_F(ArrayReaderTest, MissingValuesAreThoseThatTheTypeOfTheDataHolds) {
  build([](Hdf5Builder& file) {
    file.numbers("/narrow", {3}, {1, 1e20, -999.9}, H5T_IEEE_F32LE);
    file.number_attribute("/narrow", "missing_value", 1e20);  // a double, unlike the data
    file.number_attribute("/narrow", "_FillValue", -999.9);
    file.numbers("/whole", {2}, {1, 2'147'483'647}, H5T_STD_I32LE);
    file.number_attribute("/whole", "missing_value", 1e20);  // that no integer holds
  });
  EXPECT_THAT(numbers_of(read("/narrow").values), ElementsAre(1, IsNan(), IsNan()));
  EXPECT_THAT(numbers_of(read("/whole").values), ElementsAre(1, 2'147'483'647.0F));
}

// Makes the virtual dataset /x of six doubles: the first `mapped` ones from /part.
void build_virtual(Hdf5Builder& file, hsize_t mapped, const double* fill) {
  const hsize_t extent = 6;
  const hsize_t start = 0;
  file.numbers("/part", {mapped}, std::vector<double>(mapped, 0));
  const Hdf5Handle plist = own(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, "property list");
  const Hdf5Handle space = own(H5Screate_simple(1, &extent, nullptr), H5Sclose, "space");
  const Hdf5Handle source = own(H5Screate_simple(1, &mapped, nullptr), H5Sclose, "space");
  check_hdf5(H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, &start, nullptr, &mapped, nullptr),
             "selection");
  check_hdf5(H5Pset_virtual(plist.get(), space.get(), ".", "/part", source.get()), "virtual");
  if (fill != nullptr) {
    check_hdf5(H5Pset_fill_value(plist.get(), H5T_NATIVE_DOUBLE, fill), "fill value");
  }
  file.create("/x", {extent}, H5T_IEEE_F64LE, plist.get());
}

TEST_F(ArrayReaderTest, ZerosOfAVirtualDatasetAreValuesWhereItsSourcesCoverIt) {
  build([](Hdf5Builder& file) { build_virtual(file, 6, nullptr); });
  EXPECT_TRUE(packing("/x").identity());
  EXPECT_THAT(notes_, IsEmpty());
  EXPECT_THAT(numbers_of(read("/x").values), ElementsAre(0, 0, 0, 0, 0, 0));
  // Only the value tells the elements that no source gives.
  build([](Hdf5Builder& file) { build_virtual(file, 4, nullptr); });
  EXPECT_THAT(packing("/x").missing, ElementsAre(0));
  EXPECT_THAT(notes_, ElementsAre(HasSubstr("/x is a virtual dataset whose sources do not give "
                                            "every element; 0, which")));
  const double fill = -1;
  build([&](Hdf5Builder& file) { build_virtual(file, 4, &fill); });
  EXPECT_THAT(numbers_of(read("/x").values), ElementsAre(0, 0, 0, 0, IsNan(), IsNan()));
  build([&](Hdf5Builder& file) { build_virtual(file, 6, &fill); });
  EXPECT_THAT(packing("/x").missing, ElementsAre(-1));
}

TEST_F(ArrayReaderTest, ChunksThatWereNeverWrittenAreSaid) {
  build([](Hdf5Builder& file) { file.partly_written("/x", 10, 4, 5); });
  EXPECT_THAT(read("/x").notes, Contains(HasSubstr("data.h5: /x: 1 of 3 chunks were never written "
                                                   "and read as the fill value 0")));
  EXPECT_THAT(read_columns({"/x"}).notes, Contains(HasSubstr("1 of 3 chunks")));
  build([](Hdf5Builder& file) { file.partly_written("/x", 10, 4, 10); });
  EXPECT_THAT(read("/x").notes, IsEmpty());
}

TEST_F(ArrayReaderTest, ColumnDatasetsAreUnpackedEachByItsOwnAttributes) {
  build([](Hdf5Builder& file) {
    file.numbers("/temp", {3}, {3902, -32768, 100}, H5T_STD_I16LE);
    file.number_attribute("/temp", "scale_factor", 0.01);
    file.number_attribute("/temp", "add_offset", 1);
    file.number_attribute("/temp", "_FillValue", -32768);
    file.numbers("/humid", {3}, {1, 2, 3});
    file.numbers("/time", {3}, {0, 1, 2});
    file.text_attribute("/time", "units", "hours since 2013-01-01");
    file.numbers("/short", {2}, {1, 2});
  });
  const SeriesTable table = read_columns({"/temp", "/humid"}, {"humid", "temp"});
  EXPECT_THAT(table.columns, ElementsAre("humid", "temp"));
  EXPECT_THAT(numbers_of(table.values), ElementsAre(1, FloatEq(40.02F), 2, IsNan(), 3, 2));
  EXPECT_THAT(table.series, ElementsAre("data"));
  EXPECT_EQ(format_time(table.time[2]), "2013-01-01T02:00:00Z");
  EXPECT_THAT(message_of<DataError>([&] {
                read_columns({"/humid", "/short"});
              }),
              HasSubstr("/short has 2 values, humid has 3"));
}

TEST_F(ArrayReaderTest, OddShapesAndClassesAreRefusedByName) {
  build([](Hdf5Builder& file) {
    file.strings("/names", {"a"});
    file.numbers("/scalar", {}, {1});
    file.numbers("/wide", {2, 5}, std::vector<double>(10, 0));
    file.numbers("/named", {2, 3}, std::vector<double>(6, 0));
    file.strings_attribute("/named", "columns", {"a", "b", "c"});
    file.numbers("/sheets", {4, 2, 3}, std::vector<double>(24, 0));
    file.numbers("/many", {1, 1, 1, 1}, {0});
    file.create("/empty", {0, 2}, H5T_IEEE_F32LE);
    file.create("/unwritten", {3}, H5T_IEEE_F32LE);
  });
  EXPECT_THAT(refusal("/names"), HasSubstr("/names holds string, not numbers"));
  EXPECT_THAT(refusal("/scalar"), HasSubstr("/scalar is scalar"));
  EXPECT_THAT(refusal("/wide"), HasSubstr("/wide has more columns than rows, (2, 5)"));
  EXPECT_EQ(read("/named").rows(), 2);  // names prove what the columns are
  EXPECT_THAT(refusal("/sheets"), HasSubstr("store it as (series, time, columns)"));
  EXPECT_THAT(refusal("/many"), HasSubstr("/many has 4 dimensions, (1, 1, 1, 1)"));
  EXPECT_THAT(refusal("/empty"), HasSubstr("/empty is empty, (0, 2)"));
  EXPECT_THAT(refusal("/unwritten"), HasSubstr("/unwritten was never written"));
}

TEST(ArrayReaderRealFilesTest, PackedNetcdfGivesTheMeasuredValues) {
  LONGSHIP_SHARED_FILE(packed, "data/hdf5/netcdf4_packed.nc");
  const SeriesTable table = read_series_from(packed, "", {"temp"});
  EXPECT_EQ(table.rows(), 2003);
  EXPECT_NEAR(table.values[0][0].item<float>(), 39.02, 1e-4);
  EXPECT_FALSE(table.time.empty());
}

}  // namespace
}  // namespace longship::data
