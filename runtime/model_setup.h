#pragma once

#include <memory>

#include "models/forecaster.h"
#include "runtime/config.h"

namespace longship::runtime {

// The dimensions that a run fixes for its model.
models::ModelShape model_shape(const Config& config);

enum class Weights {
  kInitialised,
  kAny,  // any values: they do not matter, or a checkpoint brings them
};

// The model of a run on the CPU, initialised from run.seed alone. Reseeds LibTorch's default
// generator. Throws ConfigError when the model does not fit into memory.
std::shared_ptr<models::Forecaster> make_model(const Config& config,
                                               Weights weights = Weights::kInitialised);

}  // namespace longship::runtime
