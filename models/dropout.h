#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "models/forecaster.h"

namespace longship::models {

// Inverted dropout: zeroes each element of x with the given probability and divides the others by
// 1 - probability. The mask is a function of the key and the layer number alone, the same on CPUs
// and GPUs, and drawn anew in every replay of a captured step. Returns x itself where probability
// is 0.
at::Tensor dropout(const at::Tensor& x, double probability, const RandomKey& key, int64_t layer);

}  // namespace longship::models
