#pragma once

#include <ATen/ATen.h>
#include <torch/utils.h>

#include <memory>
#include <string>

#include "models/registry.h"

namespace longship::models {

// A model of the registry with its default options but for those given.
inline std::shared_ptr<Forecaster> make_model(const std::string& name, const ModelShape& shape,
                                              std::map<std::string, OptionValue> changed = {},
                                              uint64_t seed = 1) {
  const ModelSpec& spec = registered_models().at(name);
  std::map<std::string, OptionValue> values = std::move(changed);
  for (const OptionSpec& option : spec.options) values.emplace(option.name, option.fallback);
  torch::manual_seed(seed);
  std::shared_ptr<Forecaster> model = spec.make(Options(values), shape);
  model->initialise();
  return model;
}

inline RandomKey random_key(uint64_t seed, int64_t step, int64_t micro_batch) {
  return {seed, at::tensor({step, micro_batch}, at::kLong)};
}

inline at::Tensor run(Forecaster& model, const at::Tensor& past, const RandomKey& key = {}) {
  Inputs inputs;
  inputs.past = past;
  inputs.random = key;
  return model.forward(inputs).values;
}

}  // namespace longship::models
