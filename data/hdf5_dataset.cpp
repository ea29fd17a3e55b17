#include "data/hdf5_dataset.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <sstream>
#include <utility>

#include "data/error.h"
#include "data/hdf5_sources.h"
#include "data/library.h"

namespace longship::data {
namespace {

std::string byte_order(hid_t type, size_t size) {
  if (size == 1) return "";
  switch (H5Tget_order(type)) {
    case H5T_ORDER_LE:
      return " little-endian";
    case H5T_ORDER_BE:
      return " big-endian";
    default:
      return " of unusual byte order";
  }
}

std::string type_text(hid_t type) {
  const size_t size = H5Tget_size(type);
  const std::string bits = std::to_string(8 * size);
  switch (H5Tget_class(type)) {
    case H5T_INTEGER:
      return (H5Tget_sign(type) == H5T_SGN_NONE ? "uint" : "int") + bits + byte_order(type, size);
    case H5T_FLOAT:
      return "float" + bits + byte_order(type, size);
    case H5T_STRING:
      return H5Tis_variable_str(type) > 0 ? std::string("string")
                                          : "string of " + std::to_string(size);
    case H5T_ENUM:
      return "enum of " + std::to_string(std::max(H5Tget_nmembers(type), 0)) + " names";
    case H5T_COMPOUND:
      return "compound of " + std::to_string(std::max(H5Tget_nmembers(type), 0)) + " fields";
    case H5T_TIME:
      return "HDF5 time class, " + bits + " bits";
    case H5T_BITFIELD:
      return "bit field of " + bits;
    case H5T_OPAQUE:
      return "opaque of " + std::to_string(size) + " bytes";
    case H5T_REFERENCE:
      return "reference";
    case H5T_VLEN:
      return "variable-length (ragged)";
    case H5T_ARRAY:
      return "array in each element";
    default:
      return "unknown class";
  }
}

// How many chunks the shape takes, and how many of them were written.
void count_chunks(hid_t dataset, hid_t space, const std::string& name, Hdf5DatasetInfo& info) {
  info.all_chunks = 1;
  for (size_t i = 0; i < info.chunk.size(); ++i) {
    info.all_chunks *= (info.shape[i] + info.chunk[i] - 1) / info.chunk[i];
  }
  info.written_chunks = info.all_chunks;
#if H5_VERSION_GE(1, 10, 5)
  hsize_t written = 0;
  check_hdf5(H5Dget_num_chunks(dataset, space, &written), name + ": its chunks cannot be counted");
  info.written_chunks = static_cast<int64_t>(written);
#endif
}

Hdf5DatasetInfo describe(hid_t dataset, const std::string& name) {
  Hdf5DatasetInfo info;
  const Hdf5Handle type = own(H5Dget_type(dataset), H5Tclose, name + " has no readable type");
  info.type_class = H5Tget_class(type.get());
  info.type_size = H5Tget_size(type.get());
  info.type = type_text(type.get());

  const Hdf5Handle space = own(H5Dget_space(dataset), H5Sclose, name + " has no readable shape");
  info.is_null = H5Sget_simple_extent_type(space.get()) == H5S_NULL;
  const int rank = std::max(H5Sget_simple_extent_ndims(space.get()), 0);
  std::vector<hsize_t> extent(static_cast<size_t>(rank));
  if (rank > 0) {
    check_hdf5(H5Sget_simple_extent_dims(space.get(), extent.data(), nullptr), name + ": no shape");
  }
  info.shape.assign(extent.begin(), extent.end());

  const Hdf5Handle plist =
      own(H5Dget_create_plist(dataset), H5Pclose, name + " has no readable layout");
  const H5D_layout_t layout = H5Pget_layout(plist.get());
  info.is_virtual = layout == H5D_VIRTUAL;
  info.is_external = H5Pget_external_count(plist.get()) > 0;
  if (layout == H5D_CHUNKED && rank > 0) {
    std::vector<hsize_t> chunk(static_cast<size_t>(rank));
    check_hdf5(H5Pget_chunk(plist.get(), rank, chunk.data()), name + ": no chunk shape");
    info.chunk.assign(chunk.begin(), chunk.end());
    count_chunks(dataset, space.get(), name, info);
  }
  const int filters = std::max(H5Pget_nfilters(plist.get()), 0);
  for (int i = 0; i < filters; ++i) {
    unsigned flags = 0;
    size_t parameters = 0;
    unsigned config = 0;
    info.filters.push_back(H5Pget_filter2(plist.get(), static_cast<unsigned>(i), &flags,
                                          &parameters, nullptr, 0, nullptr, &config));
  }
  info.stored_bytes = static_cast<int64_t>(H5Dget_storage_size(dataset));
  return info;
}

std::string trimmed(const char* text, size_t size) {
  size_t length = 0;
  while (length < size && text[length] != '\0') ++length;
  while (length > 0 && text[length - 1] == ' ') --length;
  return std::string(text, length);
}

// Strings of an attribute or dataset, through `read(memory_type, buffer)`.
template <typename Read>
std::vector<std::string> decode_strings(hid_t type, hid_t space, size_t count, const Read& read,
                                        const std::string& name) {
  std::vector<std::string> strings;
  strings.reserve(count);
  if (H5Tis_variable_str(type) > 0) {
    const Hdf5Handle memory = own(H5Tcopy(H5T_C_S1), H5Tclose, name + ": no string type");
    check_hdf5(H5Tset_size(memory.get(), H5T_VARIABLE), name + ": no string type");
    check_hdf5(H5Tset_cset(memory.get(), H5Tget_cset(type)), name + ": no string type");
    std::vector<char*> pointers(count, nullptr);
    check_hdf5(read(memory.get(), pointers.data()), name + " cannot be read");
    for (const char* text : pointers) strings.emplace_back(text ? text : "");
    check_hdf5(H5Dvlen_reclaim(memory.get(), space, H5P_DEFAULT, pointers.data()),
               name + ": memory of strings cannot be freed");
    return strings;
  }
  const size_t size = H5Tget_size(type);
  std::vector<char> bytes(size * count);
  check_hdf5(read(type, bytes.data()), name + " cannot be read");
  for (size_t i = 0; i < count; ++i) strings.push_back(trimmed(bytes.data() + i * size, size));
  return strings;
}

struct Attribute {
  Hdf5Handle handle;
  Hdf5Handle type;
  Hdf5Handle space;
  size_t count = 0;
};

std::optional<Attribute> open_attribute(hid_t object, const std::string& name) {
  silence_hdf5();
  if (H5Aexists(object, name.c_str()) <= 0) return std::nullopt;
  Attribute attribute;
  attribute.handle = Hdf5Handle(H5Aopen(object, name.c_str(), H5P_DEFAULT), H5Aclose);
  if (!attribute.handle.valid()) return std::nullopt;
  attribute.type = Hdf5Handle(H5Aget_type(attribute.handle.get()), H5Tclose);
  attribute.space = Hdf5Handle(H5Aget_space(attribute.handle.get()), H5Sclose);
  if (!attribute.type.valid() || !attribute.space.valid()) return std::nullopt;
  const hssize_t count = H5Sget_simple_extent_npoints(attribute.space.get());
  if (count <= 0) return std::nullopt;
  attribute.count = static_cast<size_t>(count);
  return attribute;
}

template <typename T>
std::optional<std::vector<T>> numeric_attribute(hid_t object, const std::string& name,
                                                hid_t memory) {
  const auto attribute = open_attribute(object, name);
  if (!attribute) return std::nullopt;
  const H5T_class_t type_class = H5Tget_class(attribute->type.get());
  if (type_class == H5T_BITFIELD && H5Tget_size(attribute->type.get()) == 1) {
    // PyTables writes booleans so.
    std::vector<uint8_t> bits(attribute->count);
    if (H5Aread(attribute->handle.get(), H5T_NATIVE_B8, bits.data()) < 0) return std::nullopt;
    return std::vector<T>(bits.begin(), bits.end());
  }
  if (type_class != H5T_INTEGER && type_class != H5T_FLOAT) return std::nullopt;
  std::vector<T> values(attribute->count);
  if (H5Aread(attribute->handle.get(), memory, values.data()) < 0) return std::nullopt;
  return values;
}

std::string joined(const std::vector<int64_t>& numbers) {
  std::string text;
  for (const int64_t number : numbers) {
    text += (text.empty() ? "" : ", ") + std::to_string(number);
  }
  return text;
}

}  // namespace

bool Hdf5DatasetInfo::is_number() const {
  return type_class == H5T_INTEGER || type_class == H5T_FLOAT || type_class == H5T_ENUM;
}

int64_t Hdf5DatasetInfo::elements() const {
  if (is_null) return 0;
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

std::string Hdf5DatasetInfo::shape_text() const {
  if (is_null) return "null";
  if (shape.empty()) return "scalar";
  std::string text = "(";
  text += joined(shape);
  text += shape.size() == 1 ? ",)" : ")";
  return text;
}

Hdf5Dataset::Hdf5Dataset(hid_t file, std::string file_path, std::string path)
    : file_path_(std::move(file_path)), path_(std::move(path)) {
  dataset_ = open_hdf5_object(file, file_path_, path_);
  if (H5Iget_type(dataset_.get()) != H5I_DATASET) {
    throw DataError(name() + " is a group, not a dataset; name one of the datasets in it");
  }
  info_ = describe(dataset_.get(), name());
}

void Hdf5Dataset::check_readable() const {
  for (const int filter : info_.filters) {
    if (H5Zfilter_avail(filter) > 0) continue;
    throw DataError(
        name() + " is compressed with filter " + std::to_string(filter) + " (" +
        filter_name(filter) +
        "), which this HDF5 library does not have; install its "
        "plugin and set HDF5_PLUGIN_PATH, or rewrite the file where the filter is there: "
        "h5repack -f GZIP=4 IN OUT");
  }
  if (info_.is_external) check_external_files(*this);
  if (info_.is_virtual) check_virtual_sources(*this);
  if (info_.type_class == H5T_FLOAT && info_.type_size > sizeof(double)) {
    throw DataError(name() + " holds " + info_.type +
                    ", wider than a double; write it as float64 or float32");
  }
}

Hdf5Handle Hdf5Dataset::creation() const {
  return own(H5Dget_create_plist(dataset_.get()), H5Pclose, name() + " has no readable layout");
}

double Hdf5Dataset::fill_value() const {
  double value = 0;
  check_hdf5(H5Pget_fill_value(creation().get(), H5T_NATIVE_DOUBLE, &value),
             name() + ": its fill value cannot be told");
  return value;
}

bool Hdf5Dataset::fill_value_set() const {
  H5D_fill_value_t status = H5D_FILL_VALUE_UNDEFINED;
  check_hdf5(H5Pfill_value_defined(creation().get(), &status),
             name() + ": its fill value cannot be told");
  return status == H5D_FILL_VALUE_USER_DEFINED;
}

std::string Hdf5Dataset::unwritten_note() const {
  if (!info_.partly_written()) return "";
  std::string note = name() + ": " + std::to_string(info_.all_chunks - info_.written_chunks) +
                     " of " + std::to_string(info_.all_chunks) +
                     " chunks were never written and read as the fill value";
  if (!info_.is_number()) return note;
  std::ostringstream value;
  value << fill_value();
  return note + " " + value.str() + "; write them, or make the dataset smaller";
}

void Hdf5Dataset::read(hid_t memory_type, const std::vector<int64_t>& start,
                       const std::vector<int64_t>& count, void* out) const {
  const Hdf5Handle file_space = own(H5Dget_space(dataset_.get()), H5Sclose, name() + ": no shape");
  if (start.empty()) {
    check_hdf5(H5Dread(dataset_.get(), memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, out),
               name() + " cannot be read");
    return;
  }
  const std::vector<hsize_t> first(start.begin(), start.end());
  const std::vector<hsize_t> extent(count.begin(), count.end());
  check_hdf5(H5Sselect_hyperslab(file_space.get(), H5S_SELECT_SET, first.data(), nullptr,
                                 extent.data(), nullptr),
             name() + ": rows cannot be selected");
  const Hdf5Handle memory_space =
      own(H5Screate_simple(static_cast<int>(extent.size()), extent.data(), nullptr), H5Sclose,
          name() + ": no memory shape");
  check_hdf5(
      H5Dread(dataset_.get(), memory_type, memory_space.get(), file_space.get(), H5P_DEFAULT, out),
      name() + " cannot be read at (" + joined(start) + ") for (" + joined(count) + ")");
}

std::vector<double> Hdf5Dataset::read_doubles() const {
  if (!info_.is_number()) throw DataError(name() + " holds " + info_.type + ", not numbers");
  check_readable();
  std::vector<double> values(static_cast<size_t>(info_.elements()));
  if (values.empty()) return values;
  read(H5T_NATIVE_DOUBLE, std::vector<int64_t>(info_.shape.size(), 0), info_.shape, values.data());
  return values;
}

std::vector<int64_t> Hdf5Dataset::read_integers() const {
  if (info_.type_class != H5T_INTEGER) {
    throw DataError(name() + " holds " + info_.type + ", not integers");
  }
  check_readable();
  std::vector<int64_t> values(static_cast<size_t>(info_.elements()));
  if (values.empty()) return values;
  read(H5T_NATIVE_INT64, std::vector<int64_t>(info_.shape.size(), 0), info_.shape, values.data());
  return values;
}

std::vector<std::string> Hdf5Dataset::read_strings() const {
  if (info_.type_class != H5T_STRING) {
    throw DataError(name() + " holds " + info_.type + ", not strings");
  }
  check_readable();
  if (info_.elements() == 0) return {};
  const Hdf5Handle type = own(H5Dget_type(dataset_.get()), H5Tclose, name() + ": no type");
  const Hdf5Handle space = own(H5Dget_space(dataset_.get()), H5Sclose, name() + ": no shape");
  return decode_strings(
      type.get(), space.get(), static_cast<size_t>(info_.elements()),
      [&](hid_t memory, void* out) {
        return H5Dread(dataset_.get(), memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, out);
      },
      name());
}

std::optional<std::vector<std::string>> string_attribute(hid_t object, const std::string& name) {
  const auto attribute = open_attribute(object, name);
  if (!attribute || H5Tget_class(attribute->type.get()) != H5T_STRING) return std::nullopt;
  return decode_strings(
      attribute->type.get(), attribute->space.get(), attribute->count,
      [&](hid_t memory, void* out) { return H5Aread(attribute->handle.get(), memory, out); },
      "attribute " + name);
}

std::optional<std::string> text_attribute(hid_t object, const std::string& name) {
  const auto texts = string_attribute(object, name);
  if (!texts) return std::nullopt;
  return texts->front();
}

std::optional<std::vector<double>> number_attribute(hid_t object, const std::string& name) {
  return numeric_attribute<double>(object, name, H5T_NATIVE_DOUBLE);
}

std::optional<std::vector<int64_t>> integer_attribute(hid_t object, const std::string& name) {
  return numeric_attribute<int64_t>(object, name, H5T_NATIVE_INT64);
}

}  // namespace longship::data
