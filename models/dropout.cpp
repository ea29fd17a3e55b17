#include "models/dropout.h"

#include <ATen/ATen.h>
#include <ATen/Context.h>

namespace longship::models {
namespace {

// SplitMix64's finaliser (Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
// 2014): close inputs give unrelated outputs.
uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

uint64_t seed_of(const RandomKey& key, int64_t layer) {
  uint64_t seed = mix(key.seed);
  for (int64_t part : {key.step, key.micro_batch, layer}) {
    seed = mix(seed ^ static_cast<uint64_t>(part));
  }
  return seed;
}

}  // namespace

at::Tensor dropout(const at::Tensor& x, double probability, const RandomKey& key, int64_t layer) {
  if (probability <= 0) {
    return x;
  }
  // A generator of its own: the default one's state would depend on what else has drawn from it.
  at::Generator generator = at::globalContext().defaultGenerator(x.device()).clone();
  generator.set_current_seed(seed_of(key, layer));
  const at::Tensor mask =
      at::empty_like(x, x.options().requires_grad(false)).bernoulli_(1 - probability, generator);
  return x * mask.div_(1 - probability);
}

}  // namespace longship::models
