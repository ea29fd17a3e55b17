#include "runtime/training_state_io.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <c10/util/StringUtil.h>

#include "runtime/error.h"

namespace longship::runtime {

void copy_tensors(const std::map<std::string, at::Tensor>& stored,
                  const std::map<std::string, at::Tensor>& mine) {
  for (const auto& [name, tensor] : mine) {
    const auto found = stored.find(name);
    if (found == stored.end()) {
      throw CheckpointError("the checkpoint lacks " + name +
                            ": it is of another model or optimizer");
    }
    if (found->second.sizes() != tensor.sizes()) {
      throw CheckpointError("the checkpoint's " + name + " has the shape " +
                            c10::str(found->second.sizes()) + ", this model's has " +
                            c10::str(tensor.sizes()));
    }
    at::Tensor target = tensor;
    target.copy_(found->second);
  }
  for (const auto& item : stored) {
    if (mine.find(item.first) == mine.end()) {
      throw CheckpointError("the checkpoint holds " + item.first +
                            ", which this model or optimizer does not have");
    }
  }
}

nlohmann::json normalizer_json(const data::Normalizer& normalizer) {
  return {{"kind", normalizer.kind},
          {"columns", normalizer.columns},
          {"shift", normalizer.shift},
          {"scale", normalizer.scale},
          {"constant", normalizer.constant}};
}

data::Normalizer normalizer_from_json(const nlohmann::json& json) {
  data::Normalizer normalizer;
  json.at("kind").get_to(normalizer.kind);
  json.at("columns").get_to(normalizer.columns);
  json.at("shift").get_to(normalizer.shift);
  json.at("scale").get_to(normalizer.scale);
  json.at("constant").get_to(normalizer.constant);
  return normalizer;
}

std::vector<NamedTensor> model_weights(const models::Forecaster& model) {
  std::vector<NamedTensor> weights;
  for (const auto& item : model.named_parameters()) {
    weights.push_back({item.key(), item.value().detach()});
  }
  for (const auto& item : model.named_buffers()) {
    weights.push_back({item.key(), item.value()});
  }
  return weights;
}

void load_model_weights(models::Forecaster& model, const std::vector<NamedTensor>& weights) {
  const at::NoGradGuard no_grad;
  std::map<std::string, at::Tensor> stored;
  std::map<std::string, at::Tensor> mine;
  for (const NamedTensor& weight : weights) {
    stored[weight.name] = weight.tensor;
  }
  for (const NamedTensor& weight : model_weights(model)) {
    mine[weight.name] = weight.tensor;
  }
  copy_tensors(stored, mine);
}

}  // namespace longship::runtime
