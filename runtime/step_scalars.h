#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>

#include "runtime/config.h"
#include "runtime/optimizer.h"
#include "runtime/precision.h"
#include "runtime/step_finish.h"

namespace longship::runtime {

// The numbers that steer a training, on its device: sum of losses, counters, learning rate, what
// the optimizer is told. See runtime/step_finish.h for how a step moves them.
class StepScalars {
 public:
  StepScalars(const Config& config, int64_t total_steps, const LossScaler& scaler,
              c10::Device device);

  // Loss of this rank's samples so far in this step: float32 scalar, for the step to add to.
  const at::Tensor& loss_sum() const { return loss_sum_; }

  // Around the wait for reduced gradients.
  void wait_begins();
  void wait_ends();

  // Decides the step. gradients: float32 (elements,), reduced, times the loss scale.
  void finish(const at::Tensor& gradients);
  // The same where each rank holds a part of them; squares: float64 (ranks,), of all parts.
  void finish_by_squares(const at::Tensor& squares);
  Optimizer::Decision decision() const { return {lr_, step_number_, divisor_, found_inf_}; }
  // What finish() left for the log: float64 (StepFinish::kColumns,).
  const at::Tensor& numbers() const { return numbers_; }

  // Steps applied so far; synchronises.
  int64_t applied() const;
  void set_applied(int64_t applied);

 private:
  void decide(StepFinish what);

  c10::Device device_;
  double clip_norm_;
  LossScaler scaler_;  // shares its tensors with the trainer's
  at::Tensor learning_rates_;
  at::Tensor loss_sum_;
  at::Tensor applied_;
  at::Tensor consecutive_skips_;
  at::Tensor found_inf_;
  at::Tensor divisor_;
  at::Tensor lr_;
  at::Tensor step_number_;
  at::Tensor numbers_;
  at::Tensor stamps_;  // (2,) int64, nanoseconds
  at::Tensor partial_sums_;
  at::Tensor scratch_;
};

}  // namespace longship::runtime
