#include <cmath>

#include "runtime/step_decision.h"
#include "runtime/step_finish.h"

namespace longship::runtime {

void finish_step_cpu(const StepFinish& finish) {
  if (finish.squares != nullptr) {
    decide_step_by_squares(finish);
    return;
  }
  const float inverse = 1.0F / *finish.loss_scale;
  // A few sums side by side, so that additions need not wait for each other; a value that is not
  // finite makes its sum so, and squares of float32 cannot overflow a float64.
  constexpr int64_t kLanes = 8;
  double sums[kLanes] = {};
  const int64_t whole = finish.elements / kLanes * kLanes;
  for (int64_t i = 0; i < whole; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      const auto unscaled = static_cast<double>(finish.gradients[i + lane] * inverse);
      sums[lane] += unscaled * unscaled;
    }
  }
  for (int64_t i = whole; i < finish.elements; ++i) {
    const auto unscaled = static_cast<double>(finish.gradients[i] * inverse);
    sums[0] += unscaled * unscaled;
  }
  double sum = 0;
  for (const double lane : sums) sum += lane;
  decide_step(finish, sum, std::isfinite(sum));
}

}  // namespace longship::runtime
