#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace longship::runtime {

// What a step decides once its gradients are reduced, in one pass over them: their norm, whether
// one is not finite, by what the optimizer divides them (loss scale and clipping in one), the
// learning rate, and how loss scale and counters move. On a GPU it is one kernel, so that none of
// these numbers ever waits for the host (design: overflow is decided on the device).
//
//   norm          sqrt(sum (g / loss_scale)^2)
//   found_inf     1 where a gradient is not finite, else 0
//   divisor       loss_scale * max(1, (norm + 1e-6) / clip_norm): as unscaling and then
//                 torch.nn.utils.clip_grad_norm_
//   loss scale    torch.amp.GradScaler's: halved on overflow, doubled after growth_interval good
//                 steps; never below `floor`
//   applied       counts the steps that were not skipped; lr and Adam's bias correction follow it
//
// Pointers are to memory of one device.
struct StepFinish {
  // Order of `numbers`.
  enum Column {
    kLoss,
    kGradNorm,
    kSkipped,
    kLossScale,  // that this step used, as is the learning rate
    kLr,
    kApplied,
    kConsecutiveSkips,
    kExposedCommMs,  // by the stamps; 0 without
    kColumns
  };

  const float* gradients = nullptr;  // (elements,), 16-byte aligned
  int64_t elements = 0;
  // In their place where each rank holds a part of them: the sums of squares of all parts,
  // (ranks,), not finite where a gradient is not.
  const double* squares = nullptr;
  int64_t ranks = 0;

  const float* learning_rates = nullptr;  // by applied steps, (learning_rate_count,)
  int64_t learning_rate_count = 0;
  double clip_norm = 0;  // 0: no clipping
  bool scaling = false;  // whether the loss scale moves
  int growth_interval = 0;
  float floor = 0;

  // State, each a scalar.
  float* loss_scale = nullptr;
  int* growth_tracker = nullptr;
  int64_t* applied = nullptr;
  float* consecutive_skips = nullptr;
  const float* loss_sum = nullptr;
  const int64_t* stamps = nullptr;  // (2,) nanoseconds: wait for gradients begun, ended; or null

  // Results for the optimizer, each a scalar.
  float* found_inf = nullptr;
  float* divisor = nullptr;
  float* lr = nullptr;
  float* step_number = nullptr;  // 1-based, if applied
  double* numbers = nullptr;     // (kColumns,)

  // For the kernel alone.
  double* partial_sums = nullptr;  // (finish_blocks(),)
  uint32_t* scratch = nullptr;     // (2,) zero between calls
};

void finish_step_cpu(const StepFinish& finish);
void finish_step_cuda(const StepFinish& finish, cudaStream_t stream);
// Most blocks that the kernel uses.
int finish_blocks();

// Writes the GPU's clock, in nanoseconds, to *stamp.
void stamp_cuda(int64_t* stamp, cudaStream_t stream);

}  // namespace longship::runtime
