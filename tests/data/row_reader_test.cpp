#include "data/row_reader.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "data/error.h"
#include "hdf5_builder.h"

namespace longship::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsNan;

class RowReaderTest : public Hdf5Test {
 protected:
  at::Tensor read(const std::vector<int64_t>& columns, const Packing& packing = {}) const {
    const Hdf5Handle file = open();
    return read_rows(Hdf5Dataset(file.get(), path_, "/x"), columns, packing);
  }
  std::string refusal() const {
    return message_of<DataError>([&] { read({0}); });
  }
};

TEST_F(RowReaderTest, WidthsAndByteOrdersAreConverted) {
  const std::vector<hid_t> types = {H5T_IEEE_F64BE, H5T_IEEE_F32BE, H5T_IEEE_F32LE, H5T_STD_I16BE,
                                    H5T_STD_U8LE,   H5T_STD_I64BE,  H5T_STD_U64LE};
  for (const hid_t type : types) {
    build([type](Hdf5Builder& file) { file.numbers("/x", {3, 1}, {1, 100, 7}, type); });
    EXPECT_THAT(numbers_of(read({0})), ElementsAre(1, 100, 7));
  }
}

TEST_F(RowReaderTest, ColumnsComeInTheOrderAskedFor) {
  for (const hid_t type : {H5T_IEEE_F32LE, H5T_STD_I32LE}) {
    build([type](Hdf5Builder& file) { file.numbers("/x", {2, 3}, {1, 2, 3, 4, 5, 6}, type); });
    EXPECT_THAT(numbers_of(read({0, 1, 2})), ElementsAre(1, 2, 3, 4, 5, 6));
    EXPECT_THAT(numbers_of(read({2, 0})), ElementsAre(3, 1, 6, 4));
  }
}

TEST_F(RowReaderTest, SheetsOfThreeDimensionsFollowEachOther) {
  for (const hid_t type : {H5T_IEEE_F32LE, H5T_STD_I32LE}) {
    build([type](Hdf5Builder& file) {
      file.numbers("/x", {2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}, type);
    });
    EXPECT_THAT(numbers_of(read({0, 1})), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
    const at::Tensor second = read({1});
    EXPECT_EQ(second.sizes(), at::IntArrayRef({4, 1}));
    EXPECT_THAT(numbers_of(second), ElementsAre(2, 4, 6, 8));
  }
}

TEST_F(RowReaderTest, PackedNumbersAreScaledAfterMissingOnesAreTold) {
  build([](Hdf5Builder& file) { file.numbers("/x", {4}, {-1, 0, 10, 99}, H5T_STD_I16LE); });
  Packing packing;
  packing.scale = 0.5;
  packing.offset = 3;
  packing.missing = {-1, 99};
  EXPECT_THAT(numbers_of(read({0}, packing)), ElementsAre(IsNan(), 3, 8, IsNan()));
  // Also where nothing else keeps float32 from being read as it is.
  build([](Hdf5Builder& file) { file.numbers("/x", {2}, {-1, 7}, H5T_IEEE_F32LE); });
  packing = {};
  packing.missing = {-1};
  EXPECT_THAT(numbers_of(read({0}, packing)), ElementsAre(IsNan(), 7));
}

TEST_F(RowReaderTest, NaNAndInfinityStayAsTheyAre) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  build([](Hdf5Builder& file) {
    file.numbers("/x", {3}, {std::numeric_limits<double>::quiet_NaN(), kInfinity, -kInfinity});
  });
  EXPECT_THAT(numbers_of(read({0})), ElementsAre(IsNan(), kInfinity, -kInfinity));
}

// A block is 16 MiB of doubles: 2,097,152 rows of one column.
TEST_F(RowReaderTest, BlocksJoinWithoutASeam) {
  constexpr int64_t kRows = 2'100'000;
  std::vector<double> values(kRows);
  for (int64_t row = 0; row < kRows; ++row) {
    values[static_cast<size_t>(row)] = static_cast<double>(row % 1'000'003);
  }
  const auto write = [&](hid_t type) {
    build([&](Hdf5Builder& file) { file.numbers("/x", {kRows}, values, type); });
  };
  write(H5T_STD_I32LE);
  const at::Tensor whole = at::arange(kRows, at::kLong).remainder(1'000'003).to(at::kFloat);
  EXPECT_TRUE(at::equal(read({0}).flatten(), whole));
  write(H5T_IEEE_F32LE);
  EXPECT_TRUE(at::equal(read({0}).flatten(), whole));

  values[2'099'999] = 1e39;
  write(H5T_IEEE_F64LE);
  EXPECT_THAT(refusal(), AllOf(HasSubstr("data.h5: /x: row 2099999 holds 1e+39"),
                               HasSubstr("beyond the range of float32")));
}

TEST_F(RowReaderTest, ColumnsThatFloat32DoesNotHoldAreTold) {
  std::vector<double> values;
  for (int row = 0; row < 40; ++row) {
    values.push_back(row);
    values.push_back(1'600'000'000 + row);
  }
  for (const hid_t type : {H5T_IEEE_F64BE, H5T_STD_I64LE, H5T_STD_I32LE, H5T_IEEE_F32LE}) {
    build([&](Hdf5Builder& file) { file.numbers("/x", {40, 2}, values, type); });
    const Hdf5Handle file = open();
    std::vector<Narrowing> narrowings;
    read_rows(Hdf5Dataset(file.get(), path_, "/x"), {1, 0}, {}, &narrowings);
    ASSERT_EQ(narrowings.size(), 2U);
    // What was lost before it came into the file is not told.
    EXPECT_EQ(narrowings[0].lost().has_value(), type != H5T_IEEE_F32LE);
    EXPECT_FALSE(narrowings[1].lost());
  }
  // Small integers, unpacked to large numbers.
  values.resize(40);
  for (int row = 0; row < 40; ++row) values[static_cast<size_t>(row)] = row;
  build([&](Hdf5Builder& file) { file.numbers("/x", {40}, values, H5T_STD_I16LE); });
  const Hdf5Handle file = open();
  const Hdf5Dataset dataset(file.get(), path_, "/x");
  std::vector<Narrowing> narrowings;
  Packing packing;
  read_rows(dataset, {0}, packing, &narrowings);
  EXPECT_FALSE(narrowings[0].lost());
  packing.offset = 1e9;
  read_rows(dataset, {0}, packing, &narrowings);
  EXPECT_TRUE(narrowings[0].lost());
}

TEST_F(RowReaderTest, WhatHoldsNoNumbersIsNamed) {
  build([](Hdf5Builder& file) { file.strings("/x", {"a"}); });
  EXPECT_THAT(refusal(), HasSubstr("data.h5: /x holds string, not numbers"));
}

}  // namespace
}  // namespace longship::data
