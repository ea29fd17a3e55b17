#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <string>
#include <vector>

#include "models/fp8_linear.h"

namespace longship::models {

// Names one draw of randomness. Dropout masks follow from (seed, step, micro_batch, layer) alone,
// so that they do not depend on how many ranks share a step.
struct RandomKey {
  uint64_t seed = 0;
  // (2,) int64 on the inputs' device: step, micro-batch. In memory rather than in numbers, so that
  // a step that was captured in a CUDA graph sees those of each replay. Undefined: zeros.
  at::Tensor counters;
};

// What a model sees. All float32 or the compute dtype, all on one device; normalised values.
struct Inputs {
  at::Tensor past;     // (batch, window, inputs)
  at::Tensor future;   // (batch, horizon, features known ahead); undefined when there are none
  at::Tensor statics;  // (batch, static features); undefined when there are none
  at::Tensor mask;     // (batch, window, inputs) bool, true where observed; undefined: all observed
  RandomKey random;
};

struct Forecast {
  at::Tensor values;  // (batch, horizon, targets, outputs); outputs is 1 for a point forecast
};

// The dimensions that data and loss fix for a model.
struct ModelShape {
  int64_t inputs = 0;
  int64_t window = 0;
  int64_t horizon = 0;
  int64_t targets = 0;
  int64_t outputs = 1;
  bool targets_are_inputs = false;  // the same columns in the same order
};

// A model. Parameters and buffers are float32 and registered under PyTorch's names, so that a
// checkpoint's weights load in Python by name. Weights are drawn in the constructor, or in
// initialise(), from LibTorch's default generator, which the caller has seeded.
class Forecaster : public torch::nn::Module {
 public:
  virtual Forecast forward(const Inputs& inputs) = 0;

  // Draws the weights, where that takes longer than a constructor may: called once after it, but
  // not where the values do not matter (a dry run) or come from a checkpoint.
  virtual void initialise() {}

  // Called once after the parameters have reached their device (for example to pack cuDNN weights).
  virtual void on_device() {}

  // The ways in which forward() can compute such inputs here, by name, where more than one can and
  // the model's options leave open which: the caller may measure them and choose the fastest. Else
  // empty. Called as forward() is, under the same autocast and on the same device.
  virtual std::vector<std::string> implementations(const Inputs&) { return {}; }
  // From now on by that one; the first one of them until then.
  virtual void use_implementation(const std::string&) {}

  // The linear layers that can compute in FP8; none: precision.mode fp8 is refused.
  virtual std::vector<Fp8Layer*> fp8_layers() { return {}; }

  // Floating-point operations of the matrix products of one sample's forward pass, a multiplication
  // and an addition being two; 0: not told.
  virtual double forward_flops() const { return 0; }

  // One line each for the log once the first step has run: what was chosen by what it computed on.
  virtual std::vector<std::string> report() const { return {}; }

  // One line each for the log at start, for example a dimension that Tensor Cores cannot use well.
  virtual std::vector<std::string> advice() const { return {}; }
};

}  // namespace longship::models
