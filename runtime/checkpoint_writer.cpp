#include "runtime/checkpoint_writer.h"

#include <ATen/core/Tensor.h>
#include <torch/version.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "runtime/process_identity.h"

namespace longship::runtime {

namespace {

std::string optimizer_file(int rank, int world_size) {
  std::array<char, 64> name{};
  std::snprintf(name.data(), name.size(), "optimizer-%05d-of-%05d.safetensors", rank, world_size);
  return name.data();
}

// Writes one file of the checkpoint and compares what the file system gives back with what was
// meant: an older checkpoint may be removed on the strength of this one.
Manifest::File write_file(FileOps& files, const std::string& folder, const std::string& name,
                          const std::vector<NamedTensor>& tensors,
                          const std::map<std::string, std::string>& metadata) {
  const std::string path = folder + "/" + name;
  const FileDigest written = write_safetensors(files, path, tensors, metadata);
  if (InputFile(path).digest() != written) {
    throw CheckpointError(path +
                          " reads back differently from what was written; check the disk and the "
                          "memory of this host");
  }
  return {name, written};
}

Manifest::Piece piece_of(const OptimizerEntry& entry, int64_t from, int64_t to,
                         const std::string& file) {
  return {entry.parameter,
          entry.state,
          from,
          to,
          file,
          entry.parameter + "/" + entry.state + "[" + std::to_string(from) + ":" +
              std::to_string(to) + "]"};
}

Manifest::Tensor describe(const NamedTensor& entry) {
  return {entry.name, entry.tensor.sizes().vec(), safetensors_dtype(entry.tensor.scalar_type())};
}

}  // namespace

std::vector<Manifest::Piece> optimizer_share(const std::vector<OptimizerEntry>& entries, int rank,
                                             int world_size) {
  const std::string file = optimizer_file(rank, world_size);
  std::vector<Manifest::Piece> pieces;
  int64_t total = 0;
  for (const OptimizerEntry& entry : entries) {
    if (!entry.part) {
      total += entry.tensor.numel();
    } else if (entry.tensor.numel() > 0) {
      const int64_t begin = entry.part->begin;
      pieces.push_back(piece_of(entry, begin, begin + entry.tensor.numel(), file));
    }
  }
  // The first `rest` ranks get one element more.
  const int64_t each = total / world_size;
  const int64_t rest = total % world_size;
  const int64_t begin = each * rank + std::min<int64_t>(rank, rest);
  const int64_t end = begin + each + (rank < rest ? 1 : 0);

  int64_t offset = 0;
  for (const OptimizerEntry& entry : entries) {
    if (entry.part) continue;
    const int64_t from = std::max(begin, offset) - offset;
    const int64_t to = std::min(end, offset + entry.tensor.numel()) - offset;
    if (from < to) pieces.push_back(piece_of(entry, from, to, file));
    offset += entry.tensor.numel();
  }
  return pieces;
}

std::vector<Manifest::File> write_weights(FileOps& files, const std::string& folder,
                                          const TrainingState& state) {
  std::vector<Manifest::File> written;
  // "format": "pt" is what Python's readers look for.
  const std::map<std::string, std::string> metadata = {
      {"format", "pt"}, {"longship_step", std::to_string(state.step)}};
  written.push_back(write_file(files, folder, kModelFile, state.weights, metadata));
  if (!state.extra.empty()) {
    written.push_back(write_file(files, folder, kExtraFile, state.extra, {}));
  }
  return written;
}

std::vector<Manifest::File> write_optimizer_share(FileOps& files, const std::string& folder,
                                                  const std::vector<OptimizerEntry>& entries,
                                                  int rank, int world_size) {
  std::vector<NamedTensor> tensors;
  const std::vector<Manifest::Piece> pieces = optimizer_share(entries, rank, world_size);
  for (const Manifest::Piece& piece : pieces) {
    const auto entry = std::find_if(entries.begin(), entries.end(), [&](const OptimizerEntry& e) {
      return e.parameter == piece.parameter && e.state == piece.state;
    });
    const int64_t held_from = entry->part ? entry->part->begin : 0;
    tensors.push_back({piece.key, entry->tensor.detach().reshape({-1}).slice(
                                      0, piece.begin - held_from, piece.end - held_from)});
  }
  if (tensors.empty()) return {};
  return {write_file(files, folder, optimizer_file(rank, world_size), tensors, {})};
}

Manifest describe_state(const TrainingState& state, int world_size) {
  Manifest manifest;
  manifest.step = state.step;
  manifest.applied = state.applied;
  manifest.created = utc_now();
  manifest.world_size = world_size;
  for (const NamedTensor& entry : state.weights) manifest.weights.push_back(describe(entry));
  for (const NamedTensor& entry : state.extra) manifest.extra.push_back(describe(entry));
  for (const OptimizerEntry& entry : state.optimizer) {
    manifest.optimizer.push_back({entry.parameter, entry.state,
                                  entry.part ? entry.part->shape : entry.tensor.sizes().vec(),
                                  safetensors_dtype(entry.tensor.scalar_type())});
  }
  manifest.scalars = state.scalars;
  manifest.versions = {{"longship", LONGSHIP_VERSION}, {"torch", TORCH_VERSION}};
  return manifest;
}

}  // namespace longship::runtime
