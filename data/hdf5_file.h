#pragma once

#include <hdf5.h>

#include <string>
#include <vector>

namespace longship::data {

// Owns one HDF5 identifier and closes it. Movable only.
class Hdf5Handle {
 public:
  using Close = herr_t (*)(hid_t);

  Hdf5Handle() = default;
  Hdf5Handle(hid_t id, Close close) : id_(id), close_(close) {}
  ~Hdf5Handle() { reset(); }
  Hdf5Handle(Hdf5Handle&& other) noexcept : id_(other.id_), close_(other.close_) {
    other.id_ = H5I_INVALID_HID;
  }
  Hdf5Handle& operator=(Hdf5Handle&& other) noexcept;
  Hdf5Handle(const Hdf5Handle&) = delete;
  Hdf5Handle& operator=(const Hdf5Handle&) = delete;

  hid_t get() const { return id_; }
  bool valid() const { return id_ >= 0; }
  // Closes now; false when HDF5 reports that closing failed (for a file: data may not be written).
  bool reset();

 private:
  hid_t id_ = H5I_INVALID_HID;
  Close close_ = nullptr;
};

// Stops HDF5 from printing its error stack in this thread; its causes go into our messages instead.
void silence_hdf5();

// The innermost cause in HDF5's error stack of this thread, without a full stop; empty when none.
std::string hdf5_cause();

// An identifier from a call that returned it; throws DataError "WHAT: cause" when it is negative.
Hdf5Handle own(hid_t id, Hdf5Handle::Close close, const std::string& what);

// Throws DataError "WHAT: cause" when an HDF5 status is negative.
void check_hdf5(herr_t status, const std::string& what);

// Opens a file read-only and without file locks, so that readers on file systems without locks work
// and never disturb each other. Throws DataError that says what the file is instead when it is no
// HDF5 file, and by how many bytes it is short when it was truncated.
Hdf5Handle open_hdf5_file(const std::string& path);

// Tells an existing HDF5 file by its signature (at byte 0, 512, 1024, ...).
bool is_hdf5_file(const std::string& path);

// One entry of a walk through a file.
struct Hdf5Entry {
  std::string path;  // absolute, such as "/group/values"
  enum class Kind { kGroup, kDataset, kOther, kDangling } kind = Kind::kOther;
  std::string note;  // for a link: its kind and target; for kDangling: why it leads nowhere
};

// Every object of a file in order of names, each object once even when links form a cycle. Soft and
// external links are followed one step: what they lead to is listed under the link's path.
std::vector<Hdf5Entry> walk_hdf5(hid_t file, const std::string& file_path);

// The group that an object is in: "/" of "/values", "/a" of "/a/b".
std::string group_of(const std::string& path);

// True when an object, following links, is there.
bool hdf5_exists(hid_t location, const std::string& path);

// Opens an object (dataset or group) by absolute path, following links. Throws DataError naming
// file, path and, for a link that leads nowhere, its target.
Hdf5Handle open_hdf5_object(hid_t file, const std::string& file_path, const std::string& path);

}  // namespace longship::data
