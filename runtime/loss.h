#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <functional>
#include <string>
#include <vector>

#include "runtime/config.h"

namespace longship::runtime {

// Loss of each sample: mean over horizon and targets (and quantiles).
// forecast (batch, horizon, targets, outputs), target (batch, horizon, targets); float32 (batch,).
using SampleLoss = std::function<at::Tensor(const at::Tensor& forecast, const at::Tensor& target)>;

// mse, mae, huber (quadratic within `huber_delta`, as torch.nn.HuberLoss) or quantile (pinball
// loss, one output a quantile). device: where forecasts will be.
SampleLoss make_loss(const Config::Train& train, c10::Device device);

// Outputs of a model that trains with this loss: 1, or the number of quantiles.
int64_t outputs_of(const Config::Train& train);
// Which output is the point forecast: 0, or the quantile nearest to the median.
int64_t point_output(const Config::Train& train);

}  // namespace longship::runtime
