#pragma once

#include <string>
#include <vector>

#include "runtime/checkpoint_state.h"
#include "runtime/manifest.h"

namespace longship::runtime {

// The files of a checkpoint, each written by one rank, without a communicator. Every file is hashed
// while it is written, flushed, and read back once. Errors are CheckpointErrors naming the path.

// The pieces of the optimizer's tensors that a rank writes: the parts that it alone holds, or,
// where every rank holds all, with all elements counted through, rank r of n gets the r-th of n
// nearly equal runs, so a piece may be a part of a tensor. Empty where there are fewer elements
// than ranks.
std::vector<Manifest::Piece> optimizer_share(const std::vector<OptimizerEntry>& entries, int rank,
                                             int world_size);

// model.safetensors, and state.safetensors where there are extra tensors.
std::vector<Manifest::File> write_weights(FileOps& files, const std::string& folder,
                                          const TrainingState& state);

// optimizer-RRRRR-of-NNNNN.safetensors with the rank's share; no file for an empty share.
std::vector<Manifest::File> write_optimizer_share(FileOps& files, const std::string& folder,
                                                  const std::vector<OptimizerEntry>& entries,
                                                  int rank, int world_size);

// A manifest of all but the files and the optimizer's pieces. Throws CheckpointError when a dtype
// cannot be stored.
Manifest describe_state(const TrainingState& state, int world_size);

}  // namespace longship::runtime
