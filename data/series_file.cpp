#include "data/series_file.h"

#include <ATen/Functions.h>
#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "data/error.h"
#include "data/hdf5_dataset.h"
#include "data/hdf5_file.h"
#include "data/row_reader.h"

namespace longship::data {
namespace {

constexpr const char* kFormat = "longship-series";
constexpr int64_t kVersion = 1;
constexpr int64_t kChunkBytes = 512 * 1024;
// A string of variable length takes 16 bytes of an attribute, whose end is 64 KiB with its header.
constexpr size_t kColumnsInAttribute = 1000;

Hdf5Handle string_type() {
  Hdf5Handle type = own(H5Tcopy(H5T_C_S1), H5Tclose, "no HDF5 string type");
  check_hdf5(H5Tset_size(type.get(), H5T_VARIABLE), "no HDF5 string type");
  check_hdf5(H5Tset_cset(type.get(), H5T_CSET_UTF8), "no HDF5 string type");
  return type;
}

Hdf5Handle one_dimension(size_t size) {
  const hsize_t extent = size;
  return own(H5Screate_simple(1, &extent, nullptr), H5Sclose, "no HDF5 dataspace");
}

std::vector<const char*> pointers(const std::vector<std::string>& strings) {
  std::vector<const char*> result;
  result.reserve(strings.size());
  for (const std::string& text : strings) result.push_back(text.c_str());
  return result;
}

class Writer {
 public:
  Writer(hid_t file, std::string path) : file_(file), path_(std::move(path)) {}

  void attribute(const char* name, hid_t file_type, hid_t memory_type, const Hdf5Handle& space,
                 const void* value) const {
    const std::string what = path_ + ": attribute " + name + " cannot be written";
    const Hdf5Handle attribute = own(
        H5Acreate2(file_, name, file_type, space.get(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose, what);
    check_hdf5(H5Awrite(attribute.get(), memory_type, value), what);
  }

  void strings_attribute(const char* name, const std::vector<std::string>& strings) const {
    const Hdf5Handle type = string_type();
    const std::vector<const char*> values = pointers(strings);
    attribute(name, type.get(), type.get(), one_dimension(values.size()), values.data());
  }

  void text_attribute(const char* name, const char* text) const {
    const Hdf5Handle type = string_type();
    attribute(name, type.get(), type.get(), own(H5Screate(H5S_SCALAR), H5Sclose, "no HDF5 scalar"),
              &text);
  }

  void integer_attribute(const char* name, int64_t value) const {
    attribute(name, H5T_STD_I64LE, H5T_NATIVE_INT64,
              own(H5Screate(H5S_SCALAR), H5Sclose, "no HDF5 scalar"), &value);
  }

  void dataset(const char* name, hid_t file_type, hid_t memory_type, size_t size,
               const void* values) const {
    const std::string what = path_ + ": " + name + " cannot be written";
    const Hdf5Handle space = one_dimension(size);
    const Hdf5Handle set =
        own(H5Dcreate2(file_, name, file_type, space.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
            H5Dclose, what);
    check_hdf5(H5Dwrite(set.get(), memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values), what);
  }

  void strings_dataset(const char* name, const std::vector<std::string>& strings) const {
    const Hdf5Handle type = string_type();
    dataset(name, type.get(), type.get(), strings.size(), pointers(strings).data());
  }

  void values(const at::Tensor& table) const {
    const std::string what = path_ + ": /values cannot be written";
    const hsize_t extent[2] = {static_cast<hsize_t>(table.size(0)),
                               static_cast<hsize_t>(table.size(1))};
    // Whole rows in a chunk, because a window reads all columns over some rows.
    const int64_t columns = std::min<int64_t>(table.size(1), kChunkBytes / 4);
    const int64_t rows = std::clamp<int64_t>(kChunkBytes / (4 * columns), 1, table.size(0));
    const hsize_t chunk[2] = {static_cast<hsize_t>(rows), static_cast<hsize_t>(columns)};
    const Hdf5Handle plist = own(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, what);
    check_hdf5(H5Pset_chunk(plist.get(), 2, chunk), what);
    // A flipped bit must be an error, not a value.
    check_hdf5(H5Pset_fletcher32(plist.get()), what);
    const Hdf5Handle space = own(H5Screate_simple(2, extent, nullptr), H5Sclose, what);
    const Hdf5Handle set = own(H5Dcreate2(file_, "values", H5T_IEEE_F32LE, space.get(), H5P_DEFAULT,
                                          plist.get(), H5P_DEFAULT),
                               H5Dclose, what);
    check_hdf5(H5Dwrite(set.get(), H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT,
                        table.const_data_ptr<float>()),
               what);
  }

 private:
  hid_t file_;
  std::string path_;
};

void write_contents(const std::string& temporary, const SeriesTable& table) {
  silence_hdf5();
  const Hdf5Handle access =
      own(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, temporary + ": no property list");
  // Readable by HDF5 1.10, whatever library writes.
  check_hdf5(H5Pset_libver_bounds(access.get(), H5F_LIBVER_EARLIEST, H5F_LIBVER_V110),
             temporary + ": no format bounds");
  Hdf5Handle file = own(H5Fcreate(temporary.c_str(), H5F_ACC_EXCL, H5P_DEFAULT, access.get()),
                        H5Fclose, temporary + " cannot be created");
  const Writer writer(file.get(), temporary);
  writer.text_attribute("format", kFormat);
  writer.integer_attribute("version", kVersion);
  writer.values(table.values);
  writer.dataset("offsets", H5T_STD_I64LE, H5T_NATIVE_INT64, table.offsets.size(),
                 table.offsets.data());
  writer.strings_dataset("series", table.series);
  if (!table.time.empty()) {
    writer.dataset("time", H5T_STD_I64LE, H5T_NATIVE_INT64, table.time.size(), table.time.data());
    const int64_t step = regular_step(table.offsets, table.time);
    if (step > 0) writer.integer_attribute("step", step);
  }
  if (table.columns.size() <= kColumnsInAttribute) {
    writer.strings_attribute("columns", table.columns);
  } else {
    writer.strings_dataset("columns", table.columns);
  }
  check_hdf5(H5Fflush(file.get(), H5F_SCOPE_GLOBAL), temporary + " cannot be flushed");
  if (!file.reset()) throw DataError(temporary + " cannot be closed: " + hdf5_cause());
}

void sync_to_disk(const std::string& path, int flags) {
  const int descriptor = ::open(path.c_str(), flags | O_CLOEXEC);
  const bool synced = descriptor >= 0 && ::fsync(descriptor) == 0;
  const int error = errno;
  if (descriptor >= 0) ::close(descriptor);
  if (!synced) throw DataError(path + " cannot be synced to disk: " + std::strerror(error));
}

void check_table(const SeriesTable& table, const std::string& path) {
  if (table.rows() == 0 || table.columns.empty()) {
    throw DataError(path + " is not written: there are no values (" + std::to_string(table.rows()) +
                    " rows, " + std::to_string(table.columns.size()) + " columns)");
  }
  TORCH_INTERNAL_ASSERT(
      table.values.dim() == 2 && table.values.size(0) == table.rows() &&
      table.values.scalar_type() == at::kFloat && table.values.is_contiguous() &&
      table.values.size(1) == static_cast<int64_t>(table.columns.size()) &&
      table.offsets.size() == table.series.size() + 1 &&
      (table.time.empty() || static_cast<int64_t>(table.time.size()) == table.rows()));
}

// HDF5 does not survive a disk that fills up while it writes, so the room is asked for before.
void check_room(const std::string& path, const SeriesTable& table) {
  const auto rows = static_cast<uintmax_t>(table.values.size(0));
  const auto columns = static_cast<uintmax_t>(table.values.size(1));
  constexpr uintmax_t kOverhead = uintmax_t{64} << 10;  // metadata, and a part of a chunk
  const uintmax_t needed = rows * (4 * columns + 8) * 101 / 100 + kOverhead;
  std::error_code error;
  const std::string folder = std::filesystem::absolute(path, error).parent_path().string();
  struct statvfs space {};
  if (error || ::statvfs(folder.c_str(), &space) != 0) return;
  const uintmax_t free = uintmax_t{space.f_bavail} * space.f_frsize;
  if (free < needed) {
    throw DataError(path + " cannot be written: it needs about " + std::to_string(needed) +
                    " bytes and " + folder + " has " + std::to_string(free) +
                    " free; make room or name another folder");
  }
  // Some file systems have no fixed number of inodes and tell 0 of 0.
  if (space.f_files > 0 && space.f_favail == 0) {
    throw DataError(path + " cannot be written: " + folder + " has bytes free, " +
                    std::to_string(free) +
                    ", but no inode for another file; remove files or name another folder");
  }
}

// The stamps of every row, from /time or from `start` and `step`; empty when there is neither.
std::vector<int64_t> read_series_time(hid_t file, const std::string& path,
                                      const SeriesFileHeader& header) {
  const int64_t rows = header.offsets.back();
  if (hdf5_exists(file, "/time")) {
    std::vector<int64_t> time = Hdf5Dataset(file, path, "/time").read_integers();
    if (static_cast<int64_t>(time.size()) != rows) {
      throw DataError(path + ": /time has " + std::to_string(time.size()) + " stamps for " +
                      std::to_string(rows) + " rows; import the data again");
    }
    return time;
  }
  const auto start = integer_attribute(file, "start");
  if (!start || header.step <= 0) return {};
  std::vector<int64_t> time;
  time.reserve(static_cast<size_t>(rows));
  for (size_t s = 0; s + 1 < header.offsets.size(); ++s) {
    for (int64_t row = 0; row < header.offsets[s + 1] - header.offsets[s]; ++row) {
      int64_t stamp = 0;
      if (__builtin_mul_overflow(row, header.step, &stamp) ||
          __builtin_add_overflow(stamp, start->front(), &stamp)) {
        throw DataError(path + ": the time of row " + std::to_string(row) + " of series '" +
                        header.series[s] + "', start " + std::to_string(start->front()) + " + " +
                        std::to_string(row) + " * step " + std::to_string(header.step) +
                        ", does not fit nanoseconds since 1970; correct these attributes");
      }
      time.push_back(stamp);
    }
  }
  return time;
}

}  // namespace

void write_series_file(const std::string& path, const SeriesTable& table, bool overwrite) {
  check_table(table, path);
  if (!overwrite && std::filesystem::exists(path)) {
    throw DataError(path + " exists already; name another file or give --force");
  }
  check_room(path, table);
  const std::string temporary = path + ".partial." + std::to_string(::getpid());
  std::error_code ignored;
  try {
    std::filesystem::remove(temporary, ignored);
    write_contents(temporary, table);
    sync_to_disk(temporary, O_RDWR);
    std::filesystem::rename(temporary, path);
  } catch (const std::filesystem::filesystem_error& error) {
    std::filesystem::remove(temporary, ignored);
    throw DataError(path + " cannot be written: " + error.code().message());
  } catch (...) {
    std::filesystem::remove(temporary, ignored);
    throw;
  }
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  sync_to_disk(folder.empty() ? "." : folder.string(), O_RDONLY | O_DIRECTORY);
}

bool is_series_file(hid_t file) {
  const auto format = string_attribute(file, "format");
  return format && format->front() == kFormat;
}

SeriesFileHeader read_series_header(hid_t file, const std::string& path) {
  const auto version = integer_attribute(file, "version");
  if (!version) throw DataError(path + " has no attribute `version`; import it again");
  if (version->front() > kVersion) {
    throw DataError(path + " has version " + std::to_string(version->front()) +
                    " of the series format, this program reads up to " + std::to_string(kVersion) +
                    "; use a newer longship");
  }
  SeriesFileHeader header;
  header.offsets = Hdf5Dataset(file, path, "/offsets").read_integers();
  header.series = Hdf5Dataset(file, path, "/series").read_strings();
  if (hdf5_exists(file, "/columns")) {
    header.columns = Hdf5Dataset(file, path, "/columns").read_strings();
  } else if (const auto columns = string_attribute(file, "columns")) {
    header.columns = *columns;
  }
  if (const auto step = integer_attribute(file, "step")) header.step = step->front();

  const std::vector<int64_t> shape = Hdf5Dataset(file, path, "/values").info().shape;
  if (shape.size() != 2 || shape[1] != static_cast<int64_t>(header.columns.size())) {
    throw DataError(path + ": /values does not have a column for each of the " +
                    std::to_string(header.columns.size()) + " names; import the data again");
  }
  if (header.offsets.size() != header.series.size() + 1 || header.offsets.front() != 0 ||
      header.offsets.back() != shape[0] ||
      !std::is_sorted(header.offsets.begin(), header.offsets.end())) {
    throw DataError(path + ": /offsets does not divide the " + std::to_string(shape[0]) +
                    " rows into " + std::to_string(header.series.size()) +
                    " series; import the data again");
  }
  return header;
}

SeriesTable read_series_file(hid_t file, const std::string& path,
                             const std::vector<std::string>& columns, Content content) {
  SeriesFileHeader header = read_series_header(file, path);
  const std::vector<int64_t> picked = find_columns(header.columns, columns, path);
  SeriesTable table;
  for (const int64_t column : picked) {
    table.columns.push_back(header.columns[static_cast<size_t>(column)]);
  }
  const Hdf5Dataset values(file, path, "/values");
  values.check_readable();
  if (values.info().partly_written()) table.notes.push_back(values.unwritten_note());
  if (content == Content::kAll) {
    std::vector<Narrowing> narrowings;
    table.values = read_rows(values, picked, {}, &narrowings);
    list_lost(table, narrowings, table.columns, values.name());
  }
  table.time = read_series_time(file, path, header);
  table.series = std::move(header.series);
  table.offsets = std::move(header.offsets);
  return table;
}

}  // namespace longship::data
