#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/checkpoint_files.h"

namespace longship::runtime {

inline constexpr const char* kManifestFile = "manifest.json";
inline constexpr const char* kModelFile = "model.safetensors";
inline constexpr const char* kExtraFile = "state.safetensors";
inline constexpr int kManifestVersion = 1;

// A checkpoint that is whole but not for this program: of a newer version, or without a part that
// is needed. Neither damaged nor to be set aside.
class RefusedError : public CheckpointError {
 public:
  using CheckpointError::CheckpointError;
};

// What a checkpoint's folder holds: manifest.json. It is written last, so a folder that has one is
// whole, and ends with a hash of all before it, so every change of it is noticed.
struct Manifest {
  struct File {
    std::string name;  // within the folder
    FileDigest digest;
  };
  struct Tensor {
    std::string name;
    std::vector<int64_t> shape;
    std::string dtype;  // as in safetensors
  };
  struct OptimizerTensor {
    std::string parameter;
    std::string state;
    std::vector<int64_t> shape;
    std::string dtype;
    int64_t elements() const;
  };
  // Elements [begin, end) of an optimizer tensor, flattened in row-major order: the tensor `key` of
  // `file`, one-dimensional.
  struct Piece {
    std::string parameter;
    std::string state;
    int64_t begin = 0;
    int64_t end = 0;
    std::string file;
    std::string key;
  };

  int64_t step = 0;
  int64_t applied = 0;
  std::string created;     // UTC, ISO 8601
  int64_t world_size = 0;  // of the job that wrote it; nothing depends on it
  std::vector<File> files;
  std::vector<Tensor> weights;
  std::vector<Tensor> extra;
  std::vector<OptimizerTensor> optimizer;
  std::vector<Piece> pieces;
  nlohmann::json scalars = nlohmann::json::object();
  std::map<std::string, std::string> versions;
  // Parts that a whole checkpoint has and this one lacks ("weights", "optimizer", sections of
  // `scalars`). Filled by parse_manifest, not written.
  std::vector<std::string> missing;

  uint64_t total_bytes() const;
};

// The text of manifest.json.
std::string manifest_text(const Manifest& manifest);

// `path` is for messages. Throws DamagedError for text that is not an intact manifest, RefusedError
// for one of a newer version.
Manifest parse_manifest(const std::string& text, const std::string& path);

// Throws RefusedError naming those of `needed` that the manifest lacks.
void require_parts(const Manifest& manifest, const std::vector<std::string>& needed,
                   const std::string& path);

// One sentence for each optimizer tensor that the pieces do not cover exactly once.
std::vector<std::string> uncovered_optimizer(const Manifest& manifest);

}  // namespace longship::runtime
