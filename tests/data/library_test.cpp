#include "data/library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace longship::data {
namespace {

TEST(LibraryTest, NamesVersionAndFilters) {
  EXPECT_THAT(hdf5_version(), ::testing::MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
  const std::vector<Filter> filters = hdf5_filters();
  const auto shuffle =
      std::find_if(filters.begin(), filters.end(), [](const Filter& f) { return f.id == 2; });
  ASSERT_NE(shuffle, filters.end());
  EXPECT_TRUE(shuffle->usable);  // part of every HDF5 library
  EXPECT_EQ(filter_name(32001), "blosc");
  EXPECT_EQ(filter_name(400), "filter 400");
}

}  // namespace
}  // namespace longship::data
