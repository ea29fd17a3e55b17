#pragma once

#include <memory>

#include "models/forecaster.h"
#include "runtime/config.h"

namespace longship::runtime {

// The dimensions that a run fixes for its model.
models::ModelShape model_shape(const Config& config);

// The model of a run on the CPU, initialised from run.seed alone. Reseeds LibTorch's default
// generator. Throws ConfigError when the model does not fit into memory.
std::shared_ptr<models::Forecaster> make_model(const Config& config);

}  // namespace longship::runtime
