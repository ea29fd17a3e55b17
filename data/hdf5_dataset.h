#pragma once

#include <hdf5.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/hdf5_file.h"

namespace longship::data {

// What a dataset holds, found without reading its values.
struct Hdf5DatasetInfo {
  H5T_class_t type_class = H5T_NO_CLASS;
  size_t type_size = 0;        // bytes of one element
  std::string type;            // in words: "float32 little-endian", "compound of 3 fields", ...
  bool is_null = false;        // null dataspace: no elements at all
  std::vector<int64_t> shape;  // empty for a scalar
  std::vector<int64_t> chunk;  // empty when not chunked
  std::vector<int> filters;    // their numbers, in the order of writing
  bool is_virtual = false;     // parts of other datasets
  bool is_external = false;    // raw data in another file
  int64_t stored_bytes = 0;    // 0 when nothing was ever written
  int64_t all_chunks = 0;      // that the shape takes; 0 when not chunked
  int64_t written_chunks = 0;  // the others read as the fill value

  bool is_number() const;  // integer, float or enum of them (a boolean)
  int64_t elements() const;
  std::string shape_text() const;  // "(3, 4)", "scalar", "null"
  // Whether something was written, but not all of it.
  bool partly_written() const { return written_chunks > 0 && written_chunks < all_chunks; }
};

// An open dataset with what messages need to name it.
class Hdf5Dataset {
 public:
  // Throws DataError when the path leads to no dataset.
  Hdf5Dataset(hid_t file, std::string file_path, std::string path);

  const Hdf5DatasetInfo& info() const { return info_; }
  const std::string& path() const { return path_; }
  const std::string& file_path() const { return file_path_; }
  hid_t id() const { return dataset_.get(); }
  std::string name() const { return file_path_ + ": " + path_; }

  // Throws DataError, before anything is read, when values cannot be had here: a filter that is not
  // available, an external file that is missing or too short, a virtual source that is missing, a
  // float wider than a double.
  void check_readable() const;

  // The property list that it was created with.
  Hdf5Handle creation() const;
  // What never written elements read as, as a number.
  double fill_value() const;
  // Whether the fill value was set by who made the dataset, rather than left at HDF5's 0.
  bool fill_value_set() const;
  // What to say of a dataset of which only a part was written; empty otherwise.
  std::string unwritten_note() const;

  // Reads a hyperslab into memory of a native type. start and count have one entry a dimension.
  // Throws DataError.
  void read(hid_t memory_type, const std::vector<int64_t>& start, const std::vector<int64_t>& count,
            void* out) const;
  // All values of a numeric dataset, in row-major order. Throws DataError for other classes.
  std::vector<double> read_doubles() const;
  std::vector<int64_t> read_integers() const;
  // All values of a string dataset, fixed or variable, padding removed. Throws DataError.
  std::vector<std::string> read_strings() const;

 private:
  std::string file_path_;
  std::string path_;
  Hdf5Handle dataset_;
  Hdf5DatasetInfo info_;
};

// An attribute of an object, read tolerantly: fixed or variable strings, one or several, any
// number. Nothing when it is absent, empty or of another class.
std::optional<std::vector<std::string>> string_attribute(hid_t object, const std::string& name);
std::optional<std::string> text_attribute(hid_t object, const std::string& name);  // the first one
std::optional<std::vector<double>> number_attribute(hid_t object, const std::string& name);
std::optional<std::vector<int64_t>> integer_attribute(hid_t object, const std::string& name);

}  // namespace longship::data
