#include "data/pandas_frame.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>

#include "data/error.h"
#include "data/time_parser.h"
#include "hdf5_builder.h"

namespace longship::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The frame /df of two rows: "b" is float64, "a" and "c" are int64, in two blocks.
void write_fixed(Hdf5Builder& file) {
  file.group("/df");
  file.number_attribute("/df", "nblocks", 2);
  file.strings("/df/axis0", {"a", "b", "c"});
  file.integers("/df/axis1", {1'000'000, 2'000'000});
  file.text_attribute("/df/axis1", "kind", "datetime64[us]");
  file.strings("/df/block0_items", {"b"});
  file.numbers("/df/block0_values", {2, 1}, {0.5, 1.5});
  file.number_attribute("/df/block0_values", "transposed", 1);
  file.strings("/df/block1_items", {"a", "c"});
  file.numbers("/df/block1_values", {2, 2}, {1, 2, 3, 4}, H5T_STD_I64LE);
  file.number_attribute("/df/block1_values", "transposed", 1);
}

class FixedFrameTest : public Hdf5Test {
 protected:
  // /df with something added or changed.
  void build_with(const std::function<void(Hdf5Builder&)>& change) const {
    build([&](Hdf5Builder& file) {
      write_fixed(file);
      change(file);
    });
  }
  static void remove(const Hdf5Builder& file, const std::string& path) {
    check_hdf5(H5Ldelete(file.file(), path.c_str(), H5P_DEFAULT), path);
  }
  SeriesTable read(const std::vector<std::string>& columns = {}) const {
    const Hdf5Handle file = open();
    return read_fixed_frame(file.get(), path_, "/df", columns);
  }
  std::string refusal(const std::vector<std::string>& columns = {}) const {
    return message_of<DataError>([&] { read(columns); });
  }
};

TEST_F(FixedFrameTest, ColumnsOfAllBlocksComeInTheOrderOfTheFrame) {
  build(write_fixed);
  const SeriesTable table = read();
  EXPECT_THAT(table.columns, ElementsAre("a", "b", "c"));
  EXPECT_THAT(numbers_of(table.values), ElementsAre(1, 0.5, 2, 3, 1.5, 4));
  EXPECT_THAT(table.time, ElementsAre(1'000'000'000, 2'000'000'000));
  EXPECT_THAT(table.series, ElementsAre("data"));
  EXPECT_THAT(table.notes, IsEmpty());
  EXPECT_THAT(numbers_of(read({"c", "b"}).values), ElementsAre(2, 0.5, 4, 1.5));
  EXPECT_THAT(refusal({"d"}), HasSubstr("data.h5: /df has no column 'd'"));
}

TEST_F(FixedFrameTest, BlocksMayHaveColumnsFirst) {
  build_with([](Hdf5Builder& file) {
    remove(file, "/df/block1_values");
    file.numbers("/df/block1_values", {2, 2}, {1, 3, 2, 4}, H5T_STD_I64LE);
  });
  EXPECT_THAT(numbers_of(read({"a", "c"}).values), ElementsAre(1, 2, 3, 4));
}

TEST_F(FixedFrameTest, OnlyColumnsThatAreReadMustFitFloat32) {
  std::vector<double> values;
  for (int row = 0; row < 20; ++row) {
    values.push_back(row);
    values.push_back(1.6e9 + row);
  }
  for (const bool rows_first : {true, false}) {
    std::vector<double> stored = values;
    if (!rows_first) {
      for (size_t i = 0; i < 40; ++i) stored[i] = values[i % 20 * 2 + i / 20];
    }
    build([&](Hdf5Builder& file) {
      file.group("/df");
      file.number_attribute("/df", "nblocks", 2);
      file.strings("/df/axis0", {"a", "b", "c"});
      file.integers("/df/axis1", std::vector<int64_t>(20));
      file.strings("/df/block0_items", {"a", "b"});
      file.numbers("/df/block0_values",
                   rows_first ? std::vector<hsize_t>{20, 2} : std::vector<hsize_t>{2, 20}, stored);
      file.number_attribute("/df/block0_values", "transposed", rows_first ? 1 : 0);
      file.strings("/df/block1_items", {"c"});
      file.numbers("/df/block1_values", {20, 1}, std::vector<double>(20, 1e300));
      file.number_attribute("/df/block1_values", "transposed", 1);
    });
    EXPECT_THAT(read({"b"}).lost,
                ElementsAre(HasSubstr("/df/block0_values: column 'b' has in rows 0 and 1 the "
                                      "values 1600000000 and 1600000001, which are both")));
    const SeriesTable fits = read({"a"});
    EXPECT_THAT(fits.lost, IsEmpty());
    EXPECT_EQ(fits.values[19][0].item<float>(), 19);
    EXPECT_THAT(refusal({"c"}), HasSubstr("1e+300, beyond the range of float32"));
  }
}

TEST_F(FixedFrameTest, TheIndexIsTimeByItsKind) {
  const auto index_of = [&](const std::string& kind) {
    build_with([&](Hdf5Builder& file) {
      remove(file, "/df/axis1");
      file.integers("/df/axis1", {3, 4});
      file.text_attribute("/df/axis1", "kind", kind);
    });
    return read();
  };
  EXPECT_THAT(index_of("datetime64").time, ElementsAre(3, 4));
  EXPECT_THAT(index_of("datetime64[ns]").time, ElementsAre(3, 4));
  EXPECT_THAT(index_of("datetime64[ms]").time, ElementsAre(3'000'000, 4'000'000));
  EXPECT_THAT(index_of("datetime64[s]").time, ElementsAre(3'000'000'000, 4'000'000'000));
  const SeriesTable plain = index_of("integer");
  EXPECT_THAT(plain.time, IsEmpty());
  EXPECT_THAT(plain.notes, ElementsAre(HasSubstr("/df: the index is no time (integer)")));
}

TEST_F(FixedFrameTest, StampsThatDoNotFitAreRefused) {
  build_with([](Hdf5Builder& file) {
    remove(file, "/df/axis1");
    file.integers("/df/axis1", {3, int64_t{1} << 62});
    file.text_attribute("/df/axis1", "kind", "datetime64[us]");
  });
  EXPECT_THAT(refusal(), HasSubstr("/df: row 1 of the index, 4611686018427387904, does not fit"));
}

TEST_F(FixedFrameTest, ColumnsWithoutNumbersAreLeftOutOrRefusedByName) {
  build_with([](Hdf5Builder& file) {
    file.text_attribute("/df/block0_values", "value_type", "datetime64");
  });
  const SeriesTable table = read();
  EXPECT_THAT(table.columns, ElementsAre("a", "c"));
  EXPECT_THAT(table.notes, ElementsAre(HasSubstr("left out, because they hold no numbers: b")));
  EXPECT_THAT(refusal({"b"}), HasSubstr("/df: column 'b' holds no numbers"));
  build([](Hdf5Builder& file) {
    file.group("/df");
    file.number_attribute("/df", "nblocks", 0);
    file.strings("/df/axis0", {"a"});
  });
  EXPECT_THAT(refusal(), HasSubstr("/df has no column of numbers"));
}

TEST_F(FixedFrameTest, SeveralLevelsAreRefused) {
  build_with([](Hdf5Builder& file) { file.text_attribute("/df", "axis0_variety", "multi"); });
  EXPECT_THAT(refusal(), HasSubstr("/df has several levels of columns"));
  build_with([](Hdf5Builder& file) {
    file.text_attribute("/df", "axis0_variety", "regular");
    file.text_attribute("/df", "axis1_variety", "multi");
  });
  EXPECT_THAT(refusal(), HasSubstr("/df has several levels of index"));
}

TEST_F(FixedFrameTest, WhatDoesNotFitTogetherIsNamed) {
  build_with([](Hdf5Builder& file) {
    remove(file, "/df/block1_values");
    file.numbers("/df/block1_values", {2, 3}, std::vector<double>(6));
    file.number_attribute("/df/block1_values", "transposed", 1);
  });
  EXPECT_THAT(refusal(), HasSubstr("/df/block1_values does not have 2 rows and 2 columns"));
  build([](Hdf5Builder& file) { file.group("/df"); });
  EXPECT_THAT(refusal(), HasSubstr("/df has no attribute nblocks"));
}

// A frame of format `table`: columns "a" and "b" in a block of float64, "n" of int32 on its own.
struct TableRow {
  int64_t index;
  double block[2];
  int32_t n;
};

class FrameTableTest : public Hdf5Test {
 protected:
  static Hdf5Handle row_type() {
    const hsize_t width = 2;
    const Hdf5Handle block = own(H5Tarray_create2(H5T_NATIVE_DOUBLE, 1, &width), H5Tclose, "block");
    Hdf5Handle type = own(H5Tcreate(H5T_COMPOUND, sizeof(TableRow)), H5Tclose, "row");
    check_hdf5(H5Tinsert(type.get(), "index", offsetof(TableRow, index), H5T_NATIVE_INT64), "row");
    check_hdf5(H5Tinsert(type.get(), "values_block_0", offsetof(TableRow, block), block.get()),
               "row");
    check_hdf5(H5Tinsert(type.get(), "n", offsetof(TableRow, n), H5T_NATIVE_INT32), "row");
    return type;
  }
  void build_table(
      const std::vector<TableRow>& rows, const std::string& names,
      const std::function<void(Hdf5Builder&)>& change = [](Hdf5Builder&) {}) const {
    build([&](Hdf5Builder& file) {
      file.group("/df");
      const Hdf5Handle type = row_type();
      file.create("/df/table", {rows.size()}, type.get());
      const Hdf5Handle set = open_hdf5_object(file.file(), path_, "/df/table");
      if (!rows.empty()) {
        check_hdf5(H5Dwrite(set.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, rows.data()),
                   "table");
      }
      file.text_attribute("/df/table", "index_kind", "datetime64");
      if (!names.empty()) file.text_attribute("/df/table", "values_block_0_kind", names);
      change(file);
    });
  }
  SeriesTable read(const std::vector<std::string>& columns = {}) const {
    const Hdf5Handle file = open();
    return read_frame_table(file.get(), path_, "/df", columns);
  }
  std::string refusal(const std::vector<std::string>& columns = {}) const {
    return message_of<DataError>([&] { read(columns); });
  }

  const std::vector<TableRow> rows_ = {{100, {1, 2}, 3}, {200, {4, 5}, 6}};
  const std::string a_b_ = "(lVa\naVb\na.";
};

TEST_F(FrameTableTest, BlocksAndColumnsOfTheirOwnAreRead) {
  build_table(rows_, a_b_);
  const SeriesTable table = read();
  EXPECT_THAT(table.columns, ElementsAre("a", "b", "n"));
  EXPECT_THAT(numbers_of(table.values), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(table.time, ElementsAre(100, 200));
  EXPECT_THAT(numbers_of(read({"n", "a"}).values), ElementsAre(3, 1, 6, 4));
}

TEST_F(FrameTableTest, BlocksWithoutTheRightNamesAreRefused) {
  build_table(rows_, "");
  EXPECT_THAT(refusal(), HasSubstr("/df/table: attribute values_block_0_kind is missing"));
  build_table(rows_, "(lVa\na.");
  EXPECT_THAT(refusal(), HasSubstr("values_block_0_kind names 1 columns of 2"));
}

TEST_F(FrameTableTest, NamesThatStandThereTwiceAreLeftOutOrRefused) {
  build_table(rows_, "(lVa\naVa\na.");
  const SeriesTable table = read();
  EXPECT_THAT(table.columns, ElementsAre("n"));
  EXPECT_THAT(numbers_of(table.values), ElementsAre(3, 6));
  EXPECT_THAT(table.notes,
              ElementsAre(HasSubstr("because the name stands there more than once: a, a")));
  EXPECT_THAT(refusal({"a"}), HasSubstr("positions 1, 2"));
}

TEST_F(FrameTableTest, ValuesBeyondFloat32AreRefused) {
  build_table({{100, {1, 2}, 3}, {200, {4, 1e39}, 6}}, a_b_);
  EXPECT_THAT(refusal(), HasSubstr("/df/table: row 1 of column 'b' holds 1e+39, beyond the range "
                                   "of float32"));
  EXPECT_THAT(numbers_of(read({"a"}).values), ElementsAre(1, 4));
}

TEST_F(FrameTableTest, ColumnsThatFloat32DoesNotHoldAreListed) {
  std::vector<TableRow> rows;
  for (int32_t row = 0; row < 20; ++row) rows.push_back({row, {1.0 * row, 1e9 + row / 8.0}, row});
  build_table(rows, a_b_);
  EXPECT_THAT(read().lost,
              ElementsAre(path_ + ": /df/table: column 'b' has in rows 0 and 1 the values " +
                          "1000000000 and 1000000000.125, which are both 1000000000 in float32, " +
                          "and most of its variation is lost so"));
  EXPECT_THAT(read({"a", "n"}).lost, IsEmpty());
}

TEST_F(FrameTableTest, DatesAreNoNumbers) {
  build_table(rows_, a_b_,
              [](Hdf5Builder& file) { file.text_attribute("/df/table", "n_dtype", "datetime64"); });
  EXPECT_THAT(read().columns, ElementsAre("a", "b"));
  EXPECT_THAT(refusal({"n"}), HasSubstr("column 'n' holds no numbers"));
}

TEST_F(FrameTableTest, OtherTablesAreRefused) {
  build_table({}, a_b_);
  EXPECT_THAT(refusal(), HasSubstr("data.h5: /df has no rows"));
  build_table(rows_, a_b_, [](Hdf5Builder& file) {
    file.text_attribute("/df", "table_type", "appendable_multiframe");
  });
  EXPECT_THAT(refusal(), HasSubstr("/df has several levels of index"));
  build([](Hdf5Builder& file) {
    file.group("/df");
    file.numbers("/df/table", {2}, {1, 2});
  });
  EXPECT_THAT(refusal(), HasSubstr("/df/table is not the compound table"));
}

TEST(PandasRealFilesTest, BothFormatsAgree) {
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

TEST(PandasRealFilesTest, OldTablesAreRead) {
  LONGSHIP_SHARED_FILE(path, "cases/files/h5_pandas_table.h5");
  const SeriesTable table = read_series_from(path, "/building1/elec/meter1", {});
  EXPECT_EQ(table.rows(), 14);
  EXPECT_THAT(table.columns, ElementsAre("power_active", "power_reactive", "power_apparent",
                                         "cumulative energy_apparent", "energy_reactive"));
  EXPECT_EQ(table.time.size(), 14U);
}

}  // namespace
}  // namespace longship::data
