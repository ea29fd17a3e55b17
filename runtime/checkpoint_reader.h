#pragma once

#include <string>
#include <vector>

#include "runtime/checkpoint_state.h"
#include "runtime/manifest.h"

namespace longship::runtime {

// Reading a checkpoint's folder, without a communicator. All tensors are CPU tensors; CUDA is never
// touched.

// Throws DamagedError (no or a changed manifest), RefusedError (newer version) or CheckpointError.
Manifest read_manifest(const std::string& checkpoint);

// What is wrong with a checkpoint.
struct Verification {
  // Bytes that are not those written; parts that are not there. It may be set aside.
  std::vector<std::string> damage;
  // Whole, but not usable: a newer version, or written without a part.
  std::vector<std::string> refusals;
};

// Compares all files with their hashes, their headers with the manifest, and the optimizer's pieces
// with its tensors. Throws CheckpointError only when something cannot be read at all.
Verification examine_checkpoint(const std::string& checkpoint);
// The same as a list of sentences, empty when all is well; what cannot be read is one of them.
std::vector<std::string> verify_checkpoint(const std::string& checkpoint);

enum class Parts {
  kAll,      // to train on: requires the optimizer and all sections
  kWeights,  // to evaluate or export: weights and scalars; the optimizer's files are not opened
};

// Reads a checkpoint; each file is compared with its hash before it is used. The optimizer's
// tensors are put together from the pieces, whatever the number of ranks that wrote them. Throws as
// read_manifest, and RefusedError naming parts that it lacks.
TrainingState read_checkpoint(const std::string& checkpoint, Parts parts);

}  // namespace longship::runtime
