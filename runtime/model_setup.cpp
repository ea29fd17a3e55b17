#include "runtime/model_setup.h"

#include <torch/utils.h>

#include "models/registry.h"
#include "runtime/loss.h"

namespace longship::runtime {

std::shared_ptr<models::Forecaster> make_model(const Config& config) {
  models::ModelShape shape;
  shape.inputs = static_cast<int64_t>(config.data.inputs.size());
  shape.window = config.data.window;
  shape.horizon = config.data.horizon;
  shape.targets = static_cast<int64_t>(config.data.targets.size());
  shape.outputs = outputs_of(config.train);
  torch::manual_seed(static_cast<uint64_t>(config.run.seed));
  return models::registered_models().at(config.model.name).make(config.model.options, shape);
}

}  // namespace longship::runtime
