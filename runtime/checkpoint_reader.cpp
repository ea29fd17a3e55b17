#include "runtime/checkpoint_reader.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace longship::runtime {

namespace {

std::string shape_text(const std::vector<int64_t>& shape) {
  return nlohmann::json(shape).dump();
}

// Throws DamagedError when a file differs from what the manifest says of it.
void check_digest(const std::string& checkpoint, const Manifest::File& file) {
  const InputFile input(checkpoint + "/" + file.name);
  if (input.size() != file.digest.bytes) {
    throw DamagedError(input.path() + " has " + std::to_string(input.size()) + " bytes, expected " +
                       std::to_string(file.digest.bytes));
  }
  const FileDigest digest = input.digest();
  if (digest != file.digest) {
    throw DamagedError(input.path() + " was changed after it was written: its XXH3 hash is " +
                       hash_text(digest.xxh3) + ", expected " + hash_text(file.digest.xxh3));
  }
}

// The tensor of a file, checked to be what the manifest says.
const TensorInfo& find_tensor(const SafetensorsReader& reader, const std::string& key,
                              const std::vector<int64_t>& shape, const std::string& dtype) {
  const TensorInfo& info = reader.info(key);
  if (info.shape != shape || info.dtype != dtype) {
    throw DamagedError(reader.path() + ": tensor '" + key + "' is " + info.dtype + " " +
                       shape_text(info.shape) + ", expected " + dtype + " " + shape_text(shape));
  }
  return info;
}

// Which of the manifest's tensors lie in a file, by their keys in it.
struct Expected {
  std::vector<int64_t> shape;
  std::string dtype;
};
std::map<std::string, Expected> expected_tensors(const Manifest& manifest,
                                                 const std::string& file) {
  std::map<std::string, Expected> expected;
  if (file == kModelFile) {
    for (const auto& tensor : manifest.weights)
      expected[tensor.name] = {tensor.shape, tensor.dtype};
  } else if (file == kExtraFile) {
    for (const auto& tensor : manifest.extra) expected[tensor.name] = {tensor.shape, tensor.dtype};
  }
  std::map<std::pair<std::string, std::string>, std::string> dtypes;
  for (const auto& entry : manifest.optimizer) {
    dtypes[{entry.parameter, entry.state}] = entry.dtype;
  }
  for (const auto& piece : manifest.pieces) {
    if (piece.file != file) continue;
    expected[piece.key] = {{piece.end - piece.begin}, dtypes[{piece.parameter, piece.state}]};
  }
  return expected;
}

// Appends a sentence for each file that the manifest needs but does not list.
void check_files_listed(const Manifest& manifest, std::vector<std::string>& problems) {
  std::set<std::string> needed;
  if (!manifest.weights.empty()) needed.insert(kModelFile);
  if (!manifest.extra.empty()) needed.insert(kExtraFile);
  for (const auto& piece : manifest.pieces) needed.insert(piece.file);
  for (const auto& file : manifest.files) needed.erase(file.name);
  for (const std::string& name : needed) {
    problems.push_back("the manifest does not list " + name + ", which it needs");
  }
}

const Manifest::File& file_entry(const Manifest& manifest, const std::string& name,
                                 const std::string& checkpoint) {
  for (const Manifest::File& file : manifest.files) {
    if (file.name == name) return file;
  }
  throw DamagedError(checkpoint + "/" + kManifestFile + " does not list " + name +
                     ", which it needs");
}

std::vector<NamedTensor> read_tensors(const std::string& checkpoint, const Manifest& manifest,
                                      const std::string& file,
                                      const std::vector<Manifest::Tensor>& tensors) {
  std::vector<NamedTensor> result;
  if (tensors.empty()) return result;
  check_digest(checkpoint, file_entry(manifest, file, checkpoint));
  const SafetensorsReader reader(checkpoint + "/" + file);
  for (const Manifest::Tensor& tensor : tensors) {
    find_tensor(reader, tensor.name, tensor.shape, tensor.dtype);
    result.push_back({tensor.name, reader.read(tensor.name)});
  }
  return result;
}

std::vector<OptimizerEntry> read_optimizer(const std::string& checkpoint,
                                           const Manifest& manifest) {
  const std::vector<std::string> uncovered = uncovered_optimizer(manifest);
  if (!uncovered.empty()) throw DamagedError(checkpoint + ": " + uncovered.front());

  std::vector<OptimizerEntry> entries;
  std::map<std::pair<std::string, std::string>, std::size_t> index;
  for (const Manifest::OptimizerTensor& tensor : manifest.optimizer) {
    const auto type = scalar_type_of(tensor.dtype);
    if (!type) throw DamagedError(checkpoint + ": unknown dtype " + tensor.dtype);
    index[{tensor.parameter, tensor.state}] = entries.size();
    entries.push_back({tensor.parameter, tensor.state, at::empty(tensor.shape, *type)});
  }
  std::map<std::string, std::vector<const Manifest::Piece*>> by_file;
  for (const Manifest::Piece& piece : manifest.pieces) by_file[piece.file].push_back(&piece);
  for (const auto& [file, pieces] : by_file) {
    check_digest(checkpoint, file_entry(manifest, file, checkpoint));
    const SafetensorsReader reader(checkpoint + "/" + file);
    for (const Manifest::Piece* piece : pieces) {
      const std::size_t i = index.at({piece->parameter, piece->state});
      const TensorInfo& info =
          find_tensor(reader, piece->key, {piece->end - piece->begin}, manifest.optimizer[i].dtype);
      const at::Tensor& whole = entries[i].tensor;
      reader.read_into(
          info, static_cast<char*>(whole.mutable_data_ptr()) + piece->begin * whole.element_size());
    }
  }
  return entries;
}

std::vector<std::string> needed_parts(Parts parts) {
  std::vector<std::string> needed =
      parts == Parts::kAll ? required_sections() : required_sections_for_weights();
  needed.emplace_back("weights");
  if (parts == Parts::kAll) needed.emplace_back("optimizer");
  return needed;
}

}  // namespace

Manifest read_manifest(const std::string& checkpoint) {
  const std::string path = checkpoint + "/" + kManifestFile;
  const InputFile file(path);
  std::string text(file.size(), '\0');
  file.read(0, text.data(), text.size());
  return parse_manifest(text, path);
}

Verification examine_checkpoint(const std::string& checkpoint) {
  Verification result;
  Manifest manifest;
  try {
    manifest = read_manifest(checkpoint);
  } catch (const DamagedError& error) {
    result.damage.emplace_back(error.what());
    return result;
  } catch (const RefusedError& error) {
    result.refusals.emplace_back(error.what());
    return result;
  }
  for (const Manifest::File& file : manifest.files) {
    try {
      check_digest(checkpoint, file);
      const SafetensorsReader reader(checkpoint + "/" + file.name);
      for (const auto& [key, expected] : expected_tensors(manifest, file.name)) {
        find_tensor(reader, key, expected.shape, expected.dtype);
      }
    } catch (const DamagedError& error) {
      result.damage.emplace_back(error.what());
    }
  }
  check_files_listed(manifest, result.damage);
  for (const std::string& problem : uncovered_optimizer(manifest)) {
    result.damage.push_back(problem);
  }
  try {
    require_parts(manifest, needed_parts(Parts::kAll), checkpoint);
  } catch (const RefusedError& error) {
    result.refusals.emplace_back(error.what());
  }
  return result;
}

std::vector<std::string> verify_checkpoint(const std::string& checkpoint) {
  Verification result;
  try {
    result = examine_checkpoint(checkpoint);
  } catch (const CheckpointError& error) {
    return {error.what()};
  }
  result.damage.insert(result.damage.end(), result.refusals.begin(), result.refusals.end());
  return std::move(result.damage);
}

TrainingState read_checkpoint(const std::string& checkpoint, Parts parts) {
  Manifest manifest = read_manifest(checkpoint);
  require_parts(manifest, needed_parts(parts), checkpoint);
  TrainingState state;
  state.step = manifest.step;
  state.applied = manifest.applied;
  state.weights = read_tensors(checkpoint, manifest, kModelFile, manifest.weights);
  if (parts == Parts::kAll) {
    state.extra = read_tensors(checkpoint, manifest, kExtraFile, manifest.extra);
    state.optimizer = read_optimizer(checkpoint, manifest);
  }
  state.scalars = std::move(manifest.scalars);
  return state;
}

}  // namespace longship::runtime
