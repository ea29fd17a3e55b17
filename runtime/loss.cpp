#include "runtime/loss.h"

#include <ATen/ATen.h>

#include <cmath>

namespace longship::runtime {
namespace {

// (batch, horizon, targets, outputs) and (batch, horizon, targets) -> error of the same shape as
// the forecast, float32 whatever the compute dtype.
at::Tensor error_of(const at::Tensor& forecast, const at::Tensor& target) {
  return forecast.to(at::kFloat) - target.unsqueeze(-1);
}

at::Tensor mean_per_sample(const at::Tensor& elements) {
  return elements.flatten(1).mean(1);
}

}  // namespace

SampleLoss make_loss(const Config::Train& train, c10::Device device) {
  if (train.loss == "mae") {
    return [](const at::Tensor& forecast, const at::Tensor& target) {
      return mean_per_sample(error_of(forecast, target).abs());
    };
  }
  if (train.loss == "huber") {
    return [delta = train.huber_delta](const at::Tensor& forecast, const at::Tensor& target) {
      const at::Tensor size = error_of(forecast, target).abs();
      return mean_per_sample(
          at::where(size <= delta, 0.5 * size.square(), delta * (size - 0.5 * delta)));
    };
  }
  if (train.loss == "quantile") {
    // Made once: a captured step may not copy from the host's memory.
    const at::Tensor levels = at::tensor(train.quantiles, at::kDouble).to(device, at::kFloat);
    return [q = levels](const at::Tensor& forecast, const at::Tensor& target) {
      const at::Tensor under = -error_of(forecast, target);
      return mean_per_sample(at::maximum(q * under, (q - 1) * under));
    };
  }
  return [](const at::Tensor& forecast, const at::Tensor& target) {
    return mean_per_sample(error_of(forecast, target).square());
  };
}

int64_t outputs_of(const Config::Train& train) {
  return train.loss == "quantile" ? static_cast<int64_t>(train.quantiles.size()) : 1;
}

int64_t point_output(const Config::Train& train) {
  int64_t nearest = 0;
  for (int64_t i = 1; i < outputs_of(train); ++i) {
    const auto distance = [&train](int64_t k) {
      return std::abs(train.quantiles[static_cast<size_t>(k)] - 0.5);
    };
    nearest = distance(i) < distance(nearest) ? i : nearest;
  }
  return nearest;
}

}  // namespace longship::runtime
