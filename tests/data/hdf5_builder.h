#pragma once

#include <gtest/gtest.h>
#include <hdf5.h>

#include <functional>
#include <string>
#include <vector>

#include "data/hdf5_file.h"
#include "test_files.h"

namespace longship::data {

// Writes small HDF5 files for tests; throws DataError when a call fails.
class Hdf5Builder {
 public:
  explicit Hdf5Builder(const std::string& path);

  hid_t file() const { return file_.get(); }
  void group(const std::string& path);
  // A dataset that nothing is written to.
  void create(const std::string& path, const std::vector<hsize_t>& shape, hid_t file_type,
              hid_t property_list = H5P_DEFAULT);
  // A contiguous dataset of a file type from doubles.
  void numbers(const std::string& path, const std::vector<hsize_t>& shape,
               const std::vector<double>& values, hid_t file_type = H5T_IEEE_F64LE);
  // `rows` doubles in chunks, of which only the first `written` are written.
  void partly_written(const std::string& path, hsize_t rows, hsize_t chunk, hsize_t written);
  void integers(const std::string& path, const std::vector<int64_t>& values);
  void strings(const std::string& path, const std::vector<std::string>& values);
  // Strings of a fixed length in bytes, padded as the type says.
  void fixed_strings(const std::string& path, size_t length, H5T_str_t padding,
                     const std::vector<std::string>& values);
  void text_attribute(const std::string& object, const std::string& name, const std::string& text);
  void number_attribute(const std::string& object, const std::string& name, double value);
  void strings_attribute(const std::string& object, const std::string& name,
                         const std::vector<std::string>& values);

 private:
  Hdf5Handle file_;
};

// A test on one small file, data.h5.
class Hdf5Test : public ::testing::Test {
 protected:
  // Writes the file anew.
  void build(const std::function<void(Hdf5Builder&)>& fill) const {
    Hdf5Builder file(path_);
    fill(file);
  }
  Hdf5Handle open() const { return open_hdf5_file(path_); }

  TemporaryFolder folder_;
  std::string path_ = folder_.path("data.h5");
};

}  // namespace longship::data
