#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "runtime/config.h"

namespace longship::runtime {

// A micro-batch's share of a step's loss and its gradient at the forecast, on a GPU, as one kernel:
// what runtime/loss.h and autograd take a dozen for, each waiting for the one before.
//
//   loss_sum += sum_b weight_b mean_e(l(b, e)) / samples,   e over horizon, targets and outputs
//   gradient  = scale * d loss_sum / d forecast, of the forecast's type
enum class LossKind { kMse, kMae, kHuber, kQuantile };
enum class ForecastType { kFloat, kHalf, kBfloat16 };

struct LossWork {
  LossKind kind = LossKind::kMse;
  float huber_delta = 1;
  const float* quantiles = nullptr;  // (outputs,), of kQuantile

  ForecastType type = ForecastType::kFloat;
  const void* forecast = nullptr;    // (batch, elements), of `type`; outputs last
  const float* target = nullptr;     // (batch, elements / outputs)
  const float* weight = nullptr;     // (batch,)
  const int64_t* samples = nullptr;  // a scalar
  const float* scale = nullptr;      // a scalar
  int64_t batch = 0;
  int64_t elements = 0;  // of a sample
  int64_t outputs = 1;

  void* gradient = nullptr;   // as forecast, written
  float* loss_sum = nullptr;  // a scalar, added to

  double* partial_sums = nullptr;  // (loss_blocks(),)
  uint32_t* ticket = nullptr;      // a scalar, zero between calls
};
void loss_cuda(const LossWork& work, cudaStream_t stream);
// Most blocks that the kernel uses.
int loss_blocks();

class StepLoss {
 public:
  StepLoss(const Config::Train& train, c10::Device gpu);

  // forecast: (batch, horizon, targets, outputs), float32 or a half type; target: (batch, horizon,
  // targets) float32; weight: (batch,) float32; samples: int64, scale and loss_sum: float32
  // scalars. Gives the gradient, of the forecast's shape and type, and adds to loss_sum. All on the
  // GPU and the current stream; may be captured. Equal inputs give equal bits.
  at::Tensor gradient(const at::Tensor& forecast, const at::Tensor& target,
                      const at::Tensor& weight, const at::Tensor& samples, const at::Tensor& scale,
                      const at::Tensor& loss_sum);

 private:
  LossKind kind_;
  float huber_delta_;
  at::Tensor quantiles_;
  at::Tensor partial_sums_;
  at::Tensor ticket_;
};

}  // namespace longship::runtime
