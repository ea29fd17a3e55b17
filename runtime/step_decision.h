#pragma once

#include <cmath>
#include <cstdint>

#include "runtime/step_finish.h"

#if defined(__CUDACC__)
#define LONGSHIP_HOST_DEVICE __host__ __device__
#else
#define LONGSHIP_HOST_DEVICE
#endif

namespace longship::runtime {

// The scalar part of a step's end (runtime/step_finish.h), the same for a CPU and for a kernel.
// sum: of the unscaled gradients' squares; finite: whether all of them are.
LONGSHIP_HOST_DEVICE inline void decide_step(const StepFinish& f, double sum, bool finite) {
  const float scale = *f.loss_scale;
  const auto norm = static_cast<float>(sqrt(sum));
  const bool skipped = !finite;

  double factor = f.clip_norm > 0 ? f.clip_norm / (static_cast<double>(norm) + 1e-6) : 1.0;
  if (!(factor < 1.0)) factor = 1.0;
  const int64_t before = *f.applied;
  const int64_t last = f.learning_rate_count - 1;
  const float lr = f.learning_rates[before < last ? before : last];
  *f.found_inf = skipped ? 1.0F : 0.0F;
  *f.divisor = static_cast<float>(static_cast<double>(scale) / factor);
  *f.lr = lr;
  *f.step_number = static_cast<float>(before + 1);

  *f.applied = before + (skipped ? 0 : 1);
  *f.consecutive_skips = skipped ? *f.consecutive_skips + 1.0F : 0.0F;
  if (f.scaling) {
    float next = scale;
    if (skipped) {
      next = scale * 0.5F;
      *f.growth_tracker = 0;
    } else if (++*f.growth_tracker >= f.growth_interval) {
      // As torch.amp: a scale that has grown out of range stays where it is.
      if (std::isfinite(scale * 2.0F)) next = scale * 2.0F;
      *f.growth_tracker = 0;
    }
    *f.loss_scale = next < f.floor ? f.floor : next;
  }

  f.numbers[StepFinish::kLoss] = static_cast<double>(*f.loss_sum);
  f.numbers[StepFinish::kGradNorm] = static_cast<double>(norm);
  f.numbers[StepFinish::kSkipped] = skipped ? 1.0 : 0.0;
  f.numbers[StepFinish::kLossScale] = static_cast<double>(scale);
  f.numbers[StepFinish::kLr] = static_cast<double>(lr);
  f.numbers[StepFinish::kApplied] = static_cast<double>(*f.applied);
  f.numbers[StepFinish::kConsecutiveSkips] = static_cast<double>(*f.consecutive_skips);
  f.numbers[StepFinish::kExposedCommMs] =
      f.stamps != nullptr ? static_cast<double>(f.stamps[1] - f.stamps[0]) * 1e-6 : 0.0;
}

// The same from the sums of squares of gradients that still hold the loss scale.
LONGSHIP_HOST_DEVICE inline void decide_step_by_squares(const StepFinish& f) {
  const double inverse = 1.0 / static_cast<double>(*f.loss_scale);
  double sum = 0;
  for (int64_t rank = 0; rank < f.ranks; ++rank) sum += f.squares[rank] * inverse * inverse;
  decide_step(f, sum, std::isfinite(sum));
}

}  // namespace longship::runtime
