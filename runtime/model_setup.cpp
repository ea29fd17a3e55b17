#include "runtime/model_setup.h"

#include <c10/util/Exception.h>
#include <torch/utils.h>

#include <stdexcept>
#include <string>

#include "models/registry.h"
#include "runtime/error.h"
#include "runtime/loss.h"

namespace longship::runtime {

namespace {
std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}
}  // namespace

models::ModelShape model_shape(const Config& config) {
  models::ModelShape shape;
  shape.inputs = static_cast<int64_t>(config.data.inputs.size());
  shape.window = config.data.window;
  shape.horizon = config.data.horizon;
  shape.targets = static_cast<int64_t>(config.data.targets.size());
  shape.outputs = outputs_of(config.train);
  shape.targets_are_inputs = config.data.inputs == config.data.targets;
  return shape;
}

std::shared_ptr<models::Forecaster> make_model(const Config& config, Weights weights) {
  torch::manual_seed(static_cast<uint64_t>(config.run.seed));
  try {
    const std::shared_ptr<models::Forecaster> model =
        models::registered_models()
            .at(config.model.name)
            .make(config.model.options, model_shape(config));
    if (weights == Weights::kInitialised) model->initialise();
    return model;
  } catch (const std::invalid_argument& error) {  // options that do not go together
    throw ConfigError(std::string("the model cannot be made: ") + error.what());
  } catch (const c10::Error& error) {
    throw ConfigError("the model cannot be made: " + first_line(error.what_without_backtrace()) +
                      "; if it is memory that is short, make the model smaller (the keys below "
                      "model:, data.window, data.horizon)");
  }
}

}  // namespace longship::runtime
