#pragma once

#include <hdf5.h>

#include <string>
#include <vector>

#include "data/hdf5_file.h"

namespace longship::data {

// Writes small HDF5 files for tests; throws DataError when a call fails.
class Hdf5Builder {
 public:
  explicit Hdf5Builder(const std::string& path);

  hid_t file() const { return file_.get(); }
  void group(const std::string& path);
  // A contiguous dataset of a file type from doubles.
  void numbers(const std::string& path, const std::vector<hsize_t>& shape,
               const std::vector<double>& values, hid_t file_type = H5T_IEEE_F64LE);
  void integers(const std::string& path, const std::vector<int64_t>& values);
  void strings(const std::string& path, const std::vector<std::string>& values);
  void text_attribute(const std::string& object, const std::string& name, const std::string& text);
  void number_attribute(const std::string& object, const std::string& name, double value);
  void strings_attribute(const std::string& object, const std::string& name,
                         const std::vector<std::string>& values);

 private:
  Hdf5Handle file_;
};

}  // namespace longship::data
