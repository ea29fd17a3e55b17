#include "runtime/checkpoint_state.h"

#include <ATen/ops/isfinite.h>

#include <algorithm>
#include <cmath>

namespace longship::runtime {

namespace {

bool finite(const at::Tensor& tensor) {
  return !tensor.is_floating_point() || at::isfinite(tensor.detach()).all().item<bool>();
}

}  // namespace

const std::vector<std::string>& required_sections() {
  static const std::vector<std::string> sections = {"position", "scaler", "normalizer", "config",
                                                    "data",     "order",  "early_stop", "seed"};
  return sections;
}

const std::vector<std::string>& required_sections_for_weights() {
  static const std::vector<std::string> sections = {"normalizer", "config", "data"};
  return sections;
}

bool all_finite(const TrainingState& state) {
  return std::all_of(state.weights.begin(), state.weights.end(),
                     [](const NamedTensor& entry) { return finite(entry.tensor); }) &&
         std::all_of(state.optimizer.begin(), state.optimizer.end(),
                     [](const OptimizerEntry& entry) { return finite(entry.tensor); });
}

void check_scalars(const nlohmann::json& scalars) {
  for (const std::string& section : required_sections()) {
    if (!scalars.is_object() || !scalars.contains(section)) {
      throw CheckpointError("a checkpoint without the section '" + section +
                            "' could not be resumed from and is not written");
    }
  }
  const nlohmann::json flat = scalars.flatten();
  for (const auto& [pointer, value] : flat.items()) {
    if (value.is_number_float() && !std::isfinite(value.get<double>())) {
      throw CheckpointError("the value " + pointer +
                            " of the training state is not finite; the checkpoint is not written");
    }
  }
}

}  // namespace longship::runtime
