#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "comm/gradient_reducer.h"
#include "data/batch_loader.h"
#include "models/forecaster.h"
#include "runtime/batch_plan.h"
#include "runtime/config.h"
#include "runtime/fault_injection.h"
#include "runtime/loss.h"
#include "runtime/optimizer.h"
#include "runtime/precision.h"
#include "runtime/step_statistics.h"

namespace longship::runtime {

// What a model is trained with; all of it outlives the step.
struct StepParts {
  models::Forecaster& model;
  comm::GradientReducer& reducer;
  Optimizer& optimizer;
  LossScaler& scaler;
  c10::Device device;
};

// One optimizer step over all ranks, eagerly: micro-steps with accumulation, communication in the
// last one, unscale, clip, apply or skip, move the loss scale. Decisions are made on the device.
class TrainStep {
 public:
  TrainStep(StepParts parts, const Config& config, BatchPlan plan, PrecisionMode precision,
            FaultInjection fault);

  // Step number `step` (0-based) with this rank's micro-batches from `source`. Its statistics go
  // into `pipe`. When a micro-step throws, the rank still takes part in every collective of the
  // step and of the steps after it, poisoned so that all ranks skip them, and failure() tells; only
  // a CommError comes out as an exception.
  void run(int64_t step, data::BatchSource& source, StatisticsPipe& pipe);

  // What stopped this rank, or null.
  std::exception_ptr failure() const { return failure_; }

  // Runs the forward and backward of `batch` without communication and without a step, and says
  // what is not finite: the loss, or parameters by name; empty when all is finite. Clobbers
  // gradients.
  std::string diagnose(int64_t step, const data::MicroBatch& batch);

  // Optimizer steps applied; synchronises.
  int64_t applied() const;
  void set_applied(int64_t applied);

 private:
  at::Tensor loss_of(int64_t step, const data::MicroBatch& batch);
  void accumulate(int64_t step, data::BatchSource& source);
  at::Tensor clip();

  StepParts parts_;
  BatchPlan plan_;
  PrecisionMode precision_;
  FaultInjection fault_;
  SampleLoss loss_;
  uint64_t seed_;
  double clip_norm_;
  at::Tensor learning_rates_;     // (total_steps + 1,) float32
  at::Tensor applied_;            // (1,) int64, on the device as all below
  at::Tensor consecutive_skips_;  // () float32
  at::Tensor loss_sum_;           // () float32
  std::exception_ptr failure_;
};

}  // namespace longship::runtime
