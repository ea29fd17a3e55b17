#include "hdf5_builder.h"

#include <algorithm>

namespace longship::data {
namespace {

Hdf5Handle simple(const std::vector<hsize_t>& shape) {
  return own(H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr), H5Sclose,
             "space");
}

Hdf5Handle string_type() {
  Hdf5Handle type = own(H5Tcopy(H5T_C_S1), H5Tclose, "type");
  check_hdf5(H5Tset_size(type.get(), H5T_VARIABLE), "type");
  return type;
}

std::vector<const char*> pointers(const std::vector<std::string>& values) {
  std::vector<const char*> result;
  for (const std::string& value : values) result.push_back(value.c_str());
  return result;
}

void write(hid_t file, const std::string& path, hid_t file_type, hid_t memory_type,
           const Hdf5Handle& space, const void* values) {
  const Hdf5Handle set = own(
      H5Dcreate2(file, path.c_str(), file_type, space.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
      H5Dclose, path);
  check_hdf5(H5Dwrite(set.get(), memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values), path);
}

void write_attribute(hid_t file, const std::string& object, const std::string& name, hid_t type,
                     const Hdf5Handle& space, const void* value) {
  const Hdf5Handle owner = own(H5Oopen(file, object.c_str(), H5P_DEFAULT), H5Oclose, object);
  const Hdf5Handle attribute =
      own(H5Acreate2(owner.get(), name.c_str(), type, space.get(), H5P_DEFAULT, H5P_DEFAULT),
          H5Aclose, name);
  check_hdf5(H5Awrite(attribute.get(), type, value), name);
}

}  // namespace

Hdf5Builder::Hdf5Builder(const std::string& path)
    : file_(own(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), H5Fclose, path)) {
}

void Hdf5Builder::group(const std::string& path) {
  own(H5Gcreate2(file(), path.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), H5Gclose, path);
}

void Hdf5Builder::create(const std::string& path, const std::vector<hsize_t>& shape,
                         hid_t file_type, hid_t property_list) {
  own(H5Dcreate2(file(), path.c_str(), file_type, simple(shape).get(), H5P_DEFAULT, property_list,
                 H5P_DEFAULT),
      H5Dclose, path);
}

void Hdf5Builder::numbers(const std::string& path, const std::vector<hsize_t>& shape,
                          const std::vector<double>& values, hid_t file_type) {
  write(file(), path, file_type, H5T_NATIVE_DOUBLE, simple(shape), values.data());
}

void Hdf5Builder::partly_written(const std::string& path, hsize_t rows, hsize_t chunk,
                                 hsize_t written) {
  const Hdf5Handle plist = own(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, path);
  check_hdf5(H5Pset_chunk(plist.get(), 1, &chunk), path);
  create(path, {rows}, H5T_IEEE_F64LE, plist.get());
  const Hdf5Handle set = own(H5Dopen2(file(), path.c_str(), H5P_DEFAULT), H5Dclose, path);
  const Hdf5Handle space = simple({rows});
  const hsize_t start = 0;
  check_hdf5(H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, &start, nullptr, &written, nullptr),
             path);
  const std::vector<double> values(written, 1);
  check_hdf5(H5Dwrite(set.get(), H5T_NATIVE_DOUBLE, simple({written}).get(), space.get(),
                      H5P_DEFAULT, values.data()),
             path);
}

void Hdf5Builder::integers(const std::string& path, const std::vector<int64_t>& values) {
  write(file(), path, H5T_STD_I64LE, H5T_NATIVE_INT64, simple({values.size()}), values.data());
}

void Hdf5Builder::strings(const std::string& path, const std::vector<std::string>& values) {
  const Hdf5Handle type = string_type();
  write(file(), path, type.get(), type.get(), simple({values.size()}), pointers(values).data());
}

void Hdf5Builder::fixed_strings(const std::string& path, size_t length, H5T_str_t padding,
                                const std::vector<std::string>& values) {
  const Hdf5Handle type = own(H5Tcopy(H5T_C_S1), H5Tclose, "type");
  check_hdf5(H5Tset_size(type.get(), length), "type");
  check_hdf5(H5Tset_strpad(type.get(), padding), "type");
  std::string bytes(length * values.size(), padding == H5T_STR_SPACEPAD ? ' ' : '\0');
  for (size_t i = 0; i < values.size(); ++i) {
    std::copy_n(values[i].begin(), std::min(length, values[i].size()),
                bytes.begin() + static_cast<std::ptrdiff_t>(i * length));
  }
  write(file(), path, type.get(), type.get(), simple({values.size()}), bytes.data());
}

void Hdf5Builder::text_attribute(const std::string& object, const std::string& name,
                                 const std::string& text) {
  const Hdf5Handle type = string_type();
  const char* pointer = text.c_str();
  write_attribute(file(), object, name, type.get(), own(H5Screate(H5S_SCALAR), H5Sclose, name),
                  &pointer);
}

void Hdf5Builder::number_attribute(const std::string& object, const std::string& name,
                                   double value) {
  write_attribute(file(), object, name, H5T_NATIVE_DOUBLE,
                  own(H5Screate(H5S_SCALAR), H5Sclose, name), &value);
}

void Hdf5Builder::strings_attribute(const std::string& object, const std::string& name,
                                    const std::vector<std::string>& values) {
  const Hdf5Handle type = string_type();
  write_attribute(file(), object, name, type.get(), simple({values.size()}),
                  pointers(values).data());
}

}  // namespace longship::data
