#pragma once

#include <optional>

#include "data/dataset.h"
#include "runtime/config.h"

namespace longship::runtime {

// The data set that a configuration names, with paths resolved. A trained model's normaliser
// replaces the fitting of a new one.
data::DatasetSpec dataset_spec(const Config& config,
                               std::optional<data::Normalizer> normalizer = std::nullopt);

}  // namespace longship::runtime
