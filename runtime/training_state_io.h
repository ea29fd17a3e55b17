#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/normalizer.h"
#include "models/forecaster.h"
#include "runtime/safetensors.h"

namespace longship::runtime {

// Copies each stored tensor into the one of the same name. Throws CheckpointError naming the first
// that is missing, too many or of another shape. Call it without gradient mode.
void copy_tensors(const std::map<std::string, at::Tensor>& stored,
                  const std::map<std::string, at::Tensor>& mine);

// The normaliser as a checkpoint's "normalizer" section, and back (nlohmann::json exceptions for a
// section of another form).
nlohmann::json normalizer_json(const data::Normalizer& normalizer);
data::Normalizer normalizer_from_json(const nlohmann::json& json);

// Parameters and buffers under their checkpoint names; the tensors share the model's storage.
std::vector<NamedTensor> model_weights(const models::Forecaster& model);

// Copies weights into the model. Throws CheckpointError naming the first tensor that is missing,
// too many or of another shape.
void load_model_weights(models::Forecaster& model, const std::vector<NamedTensor>& weights);

}  // namespace longship::runtime
