#pragma once

#include <gtest/gtest.h>

#include <string>

#include "data/dataset.h"
#include "data/series_writer.h"
#include "test_files.h"

namespace longship::data {

// A test of training data that lie in a file.
class StoredSeriesTest : public ::testing::Test {
 protected:
  // Writes the table and gives windows of 3 + 2 rows on its column "a", as they are.
  DatasetSpec store(const SeriesTable& table, const std::string& name = "data.h5") const {
    write_series_file(folder_.path(name), table, true);
    DatasetSpec spec;
    spec.paths = {folder_.path(name)};
    spec.inputs = {"a"};
    spec.targets = {"a"};
    spec.window = 3;
    spec.horizon = 2;
    spec.normalize = "none";
    return spec;
  }

  TemporaryFolder folder_;
};

}  // namespace longship::data
