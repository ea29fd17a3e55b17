#include "runtime/dataset_setup.h"

#include <utility>

#include "runtime/config_load.h"

namespace longship::runtime {

data::DatasetSpec dataset_spec(const Config& config, std::optional<data::Normalizer> normalizer) {
  data::DatasetSpec spec;
  spec.paths = resolve_paths(config);
  spec.dataset = config.data.dataset;
  spec.inputs = config.data.inputs;
  spec.targets = config.data.targets;
  spec.window = config.data.window;
  spec.horizon = config.data.horizon;
  spec.stride = config.data.stride;
  spec.split = config.data.split;
  spec.normalize = config.data.normalize;
  spec.missing = config.data.missing;
  spec.normalizer = std::move(normalizer);
  return spec;
}

}  // namespace longship::runtime
