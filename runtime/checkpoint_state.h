#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/optimizer_entry.h"
#include "runtime/safetensors.h"

namespace longship::runtime {

// All that a training needs to go on where it was. Equal on all ranks, but for the device that the
// tensors are on, and for the parts that ranks hold of the optimizer's entries.
struct TrainingState {
  int64_t step = 0;     // batches consumed
  int64_t applied = 0;  // updates of the parameters
  // Parameters and buffers, by their names in PyTorch.
  std::vector<NamedTensor> weights;
  std::vector<OptimizerEntry> optimizer;
  // Small values by section: an object with at least required_sections(). Numbers are finite (JSON
  // has no others; null says that there is none yet).
  nlohmann::json scalars = nlohmann::json::object();
  // Small tensors of other parts, such as the wire scales' history.
  std::vector<NamedTensor> extra;
};

// The sections of `scalars` without which a training cannot go on, and the part of them that a
// forecast needs. The one list of them.
const std::vector<std::string>& required_sections();
const std::vector<std::string>& required_sections_for_weights();

// Whether all weights and optimizer entries are free of NaN and infinities, as far as this rank
// holds them. A training that diverged must not be written. Waits for the device.
bool all_finite(const TrainingState& state);

// Throws CheckpointError when `scalars` lacks a required section or holds a number that is not
// finite; names it.
void check_scalars(const nlohmann::json& scalars);

}  // namespace longship::runtime
