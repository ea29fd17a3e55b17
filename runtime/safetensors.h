#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/checkpoint_files.h"

namespace longship::runtime {

// The safetensors format (https://github.com/huggingface/safetensors): eight bytes with the length
// of a JSON header, the header (dtype, shape and byte range of each tensor, and a map of strings),
// then the tensors' bytes, little-endian, row-major, without gaps.
//
// Dtypes: F64 F32 F16 BF16 I64 I32 U8 BOOL.

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

// One tensor of a file.
struct TensorInfo {
  std::string name;
  std::string dtype;  // "F32"
  std::vector<int64_t> shape;
  uint64_t begin = 0;  // bytes from the start of the file
  uint64_t end = 0;
};

// The format's name of a dtype. Throws CheckpointError for one that it cannot hold.
std::string safetensors_dtype(at::ScalarType type);
std::optional<at::ScalarType> scalar_type_of(std::string_view dtype);

// Writes a new file and flushes it to the disk. Tensors may be on any device and have any strides;
// those that are not on the CPU are copied one at a time. They are stored by falling element size,
// so that each is aligned. Throws CheckpointError: two tensors of one name, a dtype that the format
// lacks, or a file that cannot be written.
FileDigest write_safetensors(FileOps& files, const std::string& path,
                             const std::vector<NamedTensor>& tensors,
                             const std::map<std::string, std::string>& metadata);

// A file whose header was read and checked: lengths, dtypes, shapes, byte ranges that neither
// overlap nor leave gaps and end with the file. Throws DamagedError naming file and tensor, what
// was expected and what was found.
class SafetensorsReader {
 public:
  explicit SafetensorsReader(const std::string& path);

  const std::string& path() const { return file_.path(); }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  // In the order of their bytes in the file.
  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  // Throws DamagedError when there is no tensor of that name.
  const TensorInfo& info(const std::string& name) const;
  // A new CPU tensor.
  at::Tensor read(const std::string& name) const;
  // Into memory of info.end - info.begin bytes.
  void read_into(const TensorInfo& info, void* destination) const;

 private:
  InputFile file_;
  std::map<std::string, std::string> metadata_;
  std::vector<TensorInfo> tensors_;
  std::map<std::string, std::size_t> index_;
};

}  // namespace longship::runtime
