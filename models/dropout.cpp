#include "models/dropout.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAStream.h>

#include <cstring>

#include "models/dropout_mask.h"

namespace longship::models {
namespace {

// The bits of a number in a tensor's type.
uint64_t bits_of(double value, at::ScalarType type) {
  const at::Tensor scalar = at::full({}, value, at::TensorOptions().dtype(type));
  uint64_t bits = 0;
  std::memcpy(&bits, scalar.const_data_ptr(), scalar.element_size());
  return bits;
}

}  // namespace

at::Tensor dropout(const at::Tensor& x, double probability, const RandomKey& key, int64_t layer) {
  if (probability <= 0) {
    return x;
  }
  const at::Tensor mask = at::empty(x.sizes(), x.options().requires_grad(false));
  DropoutMask what;
  what.mask = mask.mutable_data_ptr();
  what.elements = mask.numel();
  what.element_bytes = static_cast<int>(mask.element_size());
  what.keep = 1 - probability;
  what.kept = bits_of(1 / what.keep, x.scalar_type());
  what.seed = key.seed;
  what.layer = layer;
  const at::Tensor counters =
      key.counters.defined() ? key.counters : at::zeros({2}, x.options().dtype(at::kLong));
  what.counters = counters.const_data_ptr<int64_t>();
  if (x.is_cpu()) {
    write_mask_cpu(what);
  } else {
    write_mask_cuda(what, c10::cuda::getCurrentCUDAStream(x.device().index()));
  }
  return x * mask;
}

}  // namespace longship::models
