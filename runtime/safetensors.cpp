#include "runtime/safetensors.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

namespace longship::runtime {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

namespace {

constexpr const char* kMetadataKey = "__metadata__";
constexpr uint64_t kLengthBytes = 8;
// The reference implementation's limit.
constexpr uint64_t kMaxHeaderBytes = 100'000'000;

struct DtypeName {
  at::ScalarType type;
  const char* name;
};
constexpr std::array<DtypeName, 8> kDtypes = {{{at::kDouble, "F64"},
                                               {at::kFloat, "F32"},
                                               {at::kHalf, "F16"},
                                               {at::kBFloat16, "BF16"},
                                               {at::kLong, "I64"},
                                               {at::kInt, "I32"},
                                               {at::kByte, "U8"},
                                               {at::kBool, "BOOL"}}};

// Parses JSON and refuses an object that has a key twice, of which the parser would keep the last.
nlohmann::json parse_header(const std::string& text, const std::string& path) {
  std::vector<std::set<std::string>> keys;
  auto check_keys = [&](int, nlohmann::json::parse_event_t event, nlohmann::json& value) {
    using Event = nlohmann::json::parse_event_t;
    if (event == Event::object_start) keys.emplace_back();
    if (event == Event::object_end) keys.pop_back();
    if (event == Event::key && !keys.back().insert(value.get<std::string>()).second) {
      throw DamagedError(path + ": the header names '" + value.get<std::string>() + "' twice");
    }
    return true;
  };
  try {
    return nlohmann::json::parse(text, check_keys);
  } catch (const nlohmann::json::exception& error) {
    throw DamagedError(path + ": the header is not JSON: " + error.what());
  }
}

uint64_t unsigned_number(const nlohmann::json& value, const std::string& what) {
  if (!value.is_number_unsigned()) {
    throw DamagedError(what + " is " + value.dump() + ", expected a whole number");
  }
  return value.get<uint64_t>();
}

std::map<std::string, std::string> parse_metadata(const nlohmann::json& value,
                                                  const std::string& path) {
  std::map<std::string, std::string> metadata;
  if (!value.is_object()) throw DamagedError(path + ": __metadata__ is not an object");
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) {
      throw DamagedError(path + ": __metadata__ '" + key + "' is not a string");
    }
    metadata[key] = text.get<std::string>();
  }
  return metadata;
}

// One entry of the header; its byte range is from the start of the file and within it.
TensorInfo parse_tensor(const std::string& name, const nlohmann::json& value, uint64_t data_start,
                        const InputFile& file) {
  const std::string what = file.path() + ": tensor '" + name + "': ";
  if (!value.is_object() || !value.contains("dtype") || !value.contains("shape") ||
      !value.contains("data_offsets")) {
    throw DamagedError(what + "expected dtype, shape and data_offsets, found " + value.dump());
  }
  TensorInfo info;
  info.name = name;
  if (!value["dtype"].is_string() || !scalar_type_of(value["dtype"].get<std::string>())) {
    throw DamagedError(what + "dtype is " + value["dtype"].dump() +
                       ", expected one of F64 F32 F16 BF16 I64 I32 U8 BOOL");
  }
  info.dtype = value["dtype"].get<std::string>();
  uint64_t bytes = c10::elementSize(*scalar_type_of(info.dtype));
  if (!value["shape"].is_array()) throw DamagedError(what + "shape is not an array");
  for (const nlohmann::json& size : value["shape"]) {
    const uint64_t extent = unsigned_number(size, what + "a size in shape");
    if (extent > uint64_t{std::numeric_limits<int64_t>::max()} ||
        __builtin_mul_overflow(bytes, extent, &bytes)) {
      throw DamagedError(what + "shape " + value["shape"].dump() + " is too large");
    }
    info.shape.push_back(static_cast<int64_t>(extent));
  }
  const nlohmann::json& offsets = value["data_offsets"];
  if (!offsets.is_array() || offsets.size() != 2) {
    throw DamagedError(what + "data_offsets is " + offsets.dump() + ", expected [begin, end]");
  }
  const uint64_t begin = unsigned_number(offsets[0], what + "data_offsets");
  const uint64_t end = unsigned_number(offsets[1], what + "data_offsets");
  if (begin > end || end - begin != bytes) {
    throw DamagedError(what + info.dtype + " of shape " + value["shape"].dump() + " takes " +
                       std::to_string(bytes) + " bytes, found data_offsets " + offsets.dump());
  }
  if (end > file.size() - data_start) {
    throw DamagedError(what + "its bytes end at " + std::to_string(data_start + end) +
                       ", the file at " + std::to_string(file.size()));
  }
  info.begin = data_start + begin;
  info.end = data_start + end;
  return info;
}

}  // namespace

std::string safetensors_dtype(at::ScalarType type) {
  for (const DtypeName& entry : kDtypes) {
    if (entry.type == type) return entry.name;
  }
  throw CheckpointError(std::string("a tensor of dtype ") + c10::toString(type) +
                        " cannot be stored; expected one of F64 F32 F16 BF16 I64 I32 U8 BOOL");
}

std::optional<at::ScalarType> scalar_type_of(std::string_view dtype) {
  for (const DtypeName& entry : kDtypes) {
    if (dtype == entry.name) return entry.type;
  }
  return std::nullopt;
}

FileDigest write_safetensors(FileOps& files, const std::string& path,
                             const std::vector<NamedTensor>& tensors,
                             const std::map<std::string, std::string>& metadata) {
  std::vector<std::size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return tensors[a].tensor.element_size() > tensors[b].tensor.element_size();
  });

  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header[kMetadataKey] = metadata;
  uint64_t offset = 0;
  std::set<std::string> names{kMetadataKey};
  for (std::size_t i : order) {
    const auto& [name, tensor] = tensors[i];
    if (!names.insert(name).second) {
      throw CheckpointError("cannot write " + path + ": there are two tensors named '" + name +
                            "'");
    }
    header[name] = {{"dtype", safetensors_dtype(tensor.scalar_type())},
                    {"shape", tensor.sizes().vec()},
                    {"data_offsets", {offset, offset + tensor.nbytes()}}};
    offset += tensor.nbytes();
  }
  std::string text = header.dump();
  // The data start at a multiple of eight.
  text.append((kLengthBytes - text.size() % kLengthBytes) % kLengthBytes, ' ');

  const uint64_t length = text.size();
  HashingFile file(files, path, kLengthBytes + length + offset);
  file.write(&length, kLengthBytes);
  file.write(text.data(), text.size());
  for (std::size_t i : order) {
    const at::Tensor bytes = tensors[i].tensor.detach().to(at::kCPU).contiguous();
    file.write(bytes.const_data_ptr(), bytes.nbytes());
  }
  return file.finish();
}

SafetensorsReader::SafetensorsReader(const std::string& path) : file_(path) {
  uint64_t length = 0;
  if (file_.size() < kLengthBytes) {
    throw DamagedError(path + " has " + std::to_string(file_.size()) +
                       " bytes, too few for a safetensors file");
  }
  file_.read(0, &length, kLengthBytes);
  if (length > kMaxHeaderBytes || length > file_.size() - kLengthBytes) {
    throw DamagedError(path + ": the header should take " + std::to_string(length) +
                       " bytes, the file has " + std::to_string(file_.size()) +
                       " in all; it is short or not a safetensors file");
  }
  std::string text(length, '\0');
  file_.read(kLengthBytes, text.data(), length);
  const nlohmann::json header = parse_header(text, path);
  if (!header.is_object()) throw DamagedError(path + ": the header is not a JSON object");

  const uint64_t data_start = kLengthBytes + length;
  for (const auto& [name, value] : header.items()) {
    if (name == kMetadataKey) {
      metadata_ = parse_metadata(value, path);
    } else {
      tensors_.push_back(parse_tensor(name, value, data_start, file_));
    }
  }
  std::sort(tensors_.begin(), tensors_.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  uint64_t expected = data_start;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const TensorInfo& info = tensors_[i];
    if (info.begin != expected) {
      throw DamagedError(path + ": tensor '" + info.name + "' begins at byte " +
                         std::to_string(info.begin) + ", expected " + std::to_string(expected) +
                         " where the tensor before it ends");
    }
    expected = info.end;
    index_[info.name] = i;
  }
  if (expected != file_.size()) {
    throw DamagedError(path + ": the tensors end at byte " + std::to_string(expected) +
                       ", the file at " + std::to_string(file_.size()));
  }
}

const TensorInfo& SafetensorsReader::info(const std::string& name) const {
  const auto found = index_.find(name);
  if (found == index_.end()) throw DamagedError(path() + " has no tensor '" + name + "'");
  return tensors_[found->second];
}

at::Tensor SafetensorsReader::read(const std::string& name) const {
  const TensorInfo& tensor_info = info(name);
  at::Tensor tensor = at::empty(tensor_info.shape, scalar_type_of(tensor_info.dtype).value());
  read_into(tensor_info, tensor.mutable_data_ptr());
  return tensor;
}

void SafetensorsReader::read_into(const TensorInfo& info, void* destination) const {
  file_.read(info.begin, destination, info.end - info.begin);
}

}  // namespace longship::runtime
