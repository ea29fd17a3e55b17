#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <vector>

#include "comm/communicator.h"
#include "models/forecaster.h"
#include "runtime/config.h"

namespace longship::runtime {

// Throws ConfigError for precision.mode fp8 with a model that has no layers for it.
void check_fp8(const Config& config, models::Forecaster& model);

// The scales of a model's FP8 layers (see Note [FP8 linear layers] in models/fp8_linear.h), from
// the largest magnitudes of the last steps over all micro-batches and ranks, so that they do not
// depend on who took which micro-batch. All of it stays on the device.
class Fp8Scaling {
 public:
  static constexpr int64_t kHistory = 16;  // steps

  // The layers compute in FP8 as long as this lives. The communicator must outlive it.
  Fp8Scaling(models::Forecaster& model, comm::Communicator& communicator, c10::Device device);
  ~Fp8Scaling();
  Fp8Scaling(const Fp8Scaling&) = delete;
  Fp8Scaling& operator=(const Fp8Scaling&) = delete;

  // Once a step, after backward: what all ranks saw. Collective.
  void agree();
  // Then the next step's scales: work on the current stream. Magnitudes that are not finite, or all
  // zero, tell nothing.
  void update();

  // What must be kept over a resume: a CPU tensor (layers * 3, kHistory), zeros where there is none
  // yet. load_state ignores a state of another shape.
  at::Tensor state() const;
  void load_state(const at::Tensor& state);

 private:
  void make_scales();

  std::vector<models::Fp8Layer*> layers_;
  comm::Communicator& communicator_;
  at::Tensor amax_;     // float32 (layers * 3,)
  at::Tensor scale_;    // as amax_
  at::Tensor history_;  // float32 (layers * 3, kHistory), the newest last
};

}  // namespace longship::runtime
