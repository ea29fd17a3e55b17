#include "data/hdf5_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "data/error.h"

namespace longship::data {
namespace {

constexpr std::array<unsigned char, 8> kSignature = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};

struct Causes {
  std::vector<std::string> texts;  // innermost first
};

herr_t collect_cause(unsigned, const H5E_error2_t* error, void* causes) {
  static_cast<Causes*>(causes)->texts.emplace_back(error->desc ? error->desc : "");
  return 0;
}

std::vector<std::string> hdf5_causes() {
  Causes causes;
  // H5E_WALK_UPWARD starts at the inner end, where the cause is.
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, collect_cause, &causes);
  return causes.texts;
}

std::optional<int64_t> number_after(std::string_view text, std::string_view key) {
  const size_t at = text.find(key);
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view rest = text.substr(at + key.size());
  rest.remove_prefix(std::min(rest.find_first_of("0123456789"), rest.size()));
  int64_t value = 0;
  const auto result = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  if (result.ec != std::errc()) return std::nullopt;
  return value;
}

// What a file is that lacks HDF5's signature.
std::string describe_foreign(const std::string& path, uintmax_t size) {
  std::array<char, 512> head{};
  std::ifstream stream(path, std::ios::binary);
  stream.read(head.data(), head.size());
  const std::string_view seen(head.data(), static_cast<size_t>(stream.gcount()));
  if (size == 0) return "is empty, not an HDF5 file; write it again";
  if (seen.starts_with("CDF\x01") || seen.starts_with("CDF\x02") || seen.starts_with("CDF\x05")) {
    return "is a NetCDF classic file, not HDF5; convert it with `nccopy -k netCDF-4 IN OUT`";
  }
  if (seen.starts_with("\x1f\x8b")) return "is a gzip archive, not HDF5; unpack it first";
  if (seen.starts_with("PK\x03\x04")) return "is a zip archive, not HDF5; unpack it first";
  if (seen.starts_with("PAR1")) return "is a Parquet file, not HDF5; export it as CSV or HDF5";
  if (seen.starts_with("\x0e\x03\x13\x01"))
    return "is an HDF4 file, not HDF5; convert it with h4toh5";
  const bool text = std::none_of(seen.begin(), seen.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 && byte != '\n' && byte != '\r' && byte != '\t';
  });
  if (text) {
    return "is a text file, not HDF5; a CSV file is converted with "
           "`longship data import FILE.csv --output FILE.h5`";
  }
  return "is not an HDF5 file (its signature is missing); check where it came from";
}

struct LinkTarget {
  H5L_type_t type = H5L_TYPE_ERROR;
  std::string text;
};

LinkTarget read_link(hid_t location, const std::string& path) {
  LinkTarget target;
  H5L_info_t info;
  if (H5Lget_info(location, path.c_str(), &info, H5P_DEFAULT) < 0) return target;
  target.type = info.type;
  if (info.type == H5L_TYPE_HARD) return target;
  std::vector<char> value(info.u.val_size + 1, '\0');
  if (info.type == H5L_TYPE_SOFT || info.type == H5L_TYPE_EXTERNAL) {
    if (H5Lget_val(location, path.c_str(), value.data(), info.u.val_size, H5P_DEFAULT) < 0) {
      return target;
    }
  }
  if (info.type == H5L_TYPE_SOFT) {
    target.text = "soft link to " + std::string(value.data());
  } else if (info.type == H5L_TYPE_EXTERNAL) {
    const char* linked_file = nullptr;
    const char* linked_path = nullptr;
    if (H5Lunpack_elink_val(value.data(), info.u.val_size, nullptr, &linked_file, &linked_path) >=
        0) {
      target.text = "external link to " + std::string(linked_path) + " in " + linked_file;
    }
  } else {
    target.text = "user-defined link of class " + std::to_string(static_cast<int>(info.type));
  }
  return target;
}

struct Walk {
  hid_t file;
  std::vector<Hdf5Entry> entries;
  // Objects already listed, by (file number, address): links may form cycles.
  std::set<std::pair<unsigned long, haddr_t>> seen;
};

herr_t collect_name(hid_t, const char* name, const H5L_info_t*, void* names) {
  static_cast<std::vector<std::string>*>(names)->emplace_back(name);
  return 0;
}

void walk_group(Walk& walk, const std::string& group) {
  std::vector<std::string> names;
  const Hdf5Handle handle(H5Oopen(walk.file, group.c_str(), H5P_DEFAULT), H5Oclose);
  if (!handle.valid()) return;
  H5Literate(handle.get(), H5_INDEX_NAME, H5_ITER_INC, nullptr, collect_name, &names);
  for (const std::string& name : names) {
    Hdf5Entry entry;
    entry.path = (group == "/" ? "" : group) + "/" + name;
    const LinkTarget target = read_link(walk.file, entry.path);
    entry.note = target.text;
    const Hdf5Handle object(H5Oopen(walk.file, entry.path.c_str(), H5P_DEFAULT), H5Oclose);
    if (!object.valid()) {
      entry.kind = Hdf5Entry::Kind::kDangling;
      entry.note = (target.text.empty() ? "object" : target.text) +
                   ", which cannot be opened: " + hdf5_cause();
      walk.entries.push_back(std::move(entry));
      continue;
    }
    const H5I_type_t type = H5Iget_type(object.get());
    if (type == H5I_DATASET) entry.kind = Hdf5Entry::Kind::kDataset;
    if (type == H5I_GROUP) entry.kind = Hdf5Entry::Kind::kGroup;
    const bool is_group = entry.kind == Hdf5Entry::Kind::kGroup;
    H5O_info_t info;
    check_hdf5(H5Oget_info(object.get(), &info), entry.path + " cannot be examined");
    const bool first = walk.seen.emplace(info.fileno, info.addr).second;
    const std::string path = entry.path;
    if (first || !is_group) walk.entries.push_back(std::move(entry));
    if (is_group && first) walk_group(walk, path);
  }
}

}  // namespace

Hdf5Handle& Hdf5Handle::operator=(Hdf5Handle&& other) noexcept {
  if (this != &other) {
    reset();
    id_ = std::exchange(other.id_, H5I_INVALID_HID);
    close_ = other.close_;
  }
  return *this;
}

bool Hdf5Handle::reset() {
  const hid_t id = std::exchange(id_, H5I_INVALID_HID);
  return id < 0 || close_ == nullptr || close_(id) >= 0;
}

void silence_hdf5() {
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

std::string hdf5_cause() {
  const std::vector<std::string> causes = hdf5_causes();
  return causes.empty() ? std::string() : causes.front();
}

Hdf5Handle own(hid_t id, Hdf5Handle::Close close, const std::string& what) {
  if (id < 0) {
    const std::string cause = hdf5_cause();
    throw DataError(cause.empty() ? what : what + ": " + cause);
  }
  return Hdf5Handle(id, close);
}

void check_hdf5(herr_t status, const std::string& what) {
  if (status >= 0) return;
  const std::string cause = hdf5_cause();
  throw DataError(cause.empty() ? what : what + ": " + cause);
}

bool is_hdf5_file(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  std::array<unsigned char, 8> bytes{};
  // The signature may follow a user block whose size is 512 or a larger power of two.
  for (int64_t at = 0; stream; at = at == 0 ? 512 : 2 * at) {
    stream.seekg(at);
    if (!stream.read(reinterpret_cast<char*>(bytes.data()), bytes.size())) return false;
    if (bytes == kSignature) return true;
  }
  return false;
}

Hdf5Handle open_hdf5_file(const std::string& path) {
  silence_hdf5();
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (status.type() != std::filesystem::file_type::not_found && !std::filesystem::exists(status)) {
    throw DataError(path + " cannot be looked at: " + error.message() +
                    "; check the permissions of the folders above it");
  }
  if (!std::filesystem::exists(status)) {
    const std::string absolute = std::filesystem::absolute(path, error).lexically_normal().string();
    throw DataError(path + ": no such file; check the path" +
                    (absolute == path ? "" : " (looked for at " + absolute + ")"));
  }
  if (std::filesystem::is_directory(status)) {
    throw DataError(path + " is a folder; name a file");
  }
  if (!std::filesystem::is_regular_file(status)) {
    throw DataError(path + " is a device or pipe, not a regular file");
  }
  if (!std::ifstream(path, std::ios::binary)) {
    throw DataError(path + " cannot be read: " + std::strerror(errno));
  }
  const uintmax_t size = std::filesystem::file_size(path, error);
  if (!is_hdf5_file(path)) throw DataError(path + " " + describe_foreign(path, size));

  const Hdf5Handle access = own(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, path + ": no property list");
#if H5_VERSION_GE(1, 10, 7)
  check_hdf5(H5Pset_file_locking(access.get(), false, true), path + ": locking cannot be set");
#endif
  Hdf5Handle file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()), H5Fclose);
  if (file.valid()) return file;

  for (const std::string& cause : hdf5_causes()) {
    if (cause.find("truncated file") != std::string::npos) {
      const auto expected = number_after(cause, "stored_eof");
      if (expected) {
        throw DataError(path + " is truncated: it should have " + std::to_string(*expected) +
                        " bytes and has " + std::to_string(size) + " (" +
                        std::to_string(*expected - static_cast<int64_t>(size)) +
                        " are missing); copy or write it again");
      }
    }
    if (cause.find("already open for write") != std::string::npos ||
        cause.find("file is not already open for SWMR") != std::string::npos) {
      throw DataError(path +
                      " is marked as open for writing: a writer still has it or died; wait, "
                      "or clear the mark with `h5clear -s " +
                      path + "`");
    }
  }
  throw DataError(path + " cannot be opened as HDF5: " + hdf5_cause() +
                  "; it may be damaged or written by a newer HDF5 library");
}

std::vector<Hdf5Entry> walk_hdf5(hid_t file, const std::string& file_path) {
  Walk walk{file, {}, {}};
  H5O_info_t root;
  check_hdf5(H5Oget_info(file, &root), file_path + ": its root group cannot be examined");
  walk.seen.emplace(root.fileno, root.addr);
  walk_group(walk, "/");
  return walk.entries;
}

std::string group_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == 0 ? "/" : path.substr(0, slash);
}

bool hdf5_exists(hid_t location, const std::string& path) {
  silence_hdf5();
  const Hdf5Handle object(H5Oopen(location, path.c_str(), H5P_DEFAULT), H5Oclose);
  return object.valid();
}

Hdf5Handle open_hdf5_object(hid_t file, const std::string& file_path, const std::string& path) {
  silence_hdf5();
  Hdf5Handle object(H5Oopen(file, path.c_str(), H5P_DEFAULT), H5Oclose);
  if (object.valid()) return object;
  const std::string cause = hdf5_cause();
  const LinkTarget target = read_link(file, path);
  if (target.type == H5L_TYPE_ERROR) {
    throw DataError(file_path + " has no " + path + "; `longship data inspect " + file_path +
                    "` lists what it has");
  }
  throw DataError(file_path + ": " + path + " cannot be opened: " +
                  (target.text.empty()
                       ? cause
                       : "it is a " + target.text + " that leads nowhere (" + cause + ")"));
}

}  // namespace longship::data
