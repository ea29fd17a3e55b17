#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/gradient_reducer.h"
#include "data/batch_loader.h"
#include "data/device_series.h"
#include "models/forecaster.h"
#include "runtime/batch_plan.h"
#include "runtime/config.h"
#include "runtime/fault_injection.h"
#include "runtime/fp8_scaling.h"
#include "runtime/loss.h"
#include "runtime/optimizer.h"
#include "runtime/precision.h"
#include "runtime/step_graph.h"
#include "runtime/step_inputs.h"
#include "runtime/step_loss.h"
#include "runtime/step_scalars.h"
#include "runtime/step_statistics.h"

namespace longship::runtime {

// What a model is trained with; all of it outlives the step.
struct StepParts {
  models::Forecaster& model;
  comm::GradientReducer& reducer;
  Optimizer& optimizer;
  LossScaler& scaler;
  c10::Device device;
  // Where the micro-batches are rows of device-resident series.
  const data::DeviceSeries* series = nullptr;
  Fp8Scaling* fp8 = nullptr;  // with precision fp8
};

// One optimizer step over all ranks: micro-steps with accumulation, communication in the last one,
// unscale, clip, apply or skip, move the loss scale. Decisions are made on the device.
//
// Note [Whole-step graphs]
// A step of these models is hundreds of small kernels, and a host that launches them one by one is
// slower than the GPU. So after a few steps the step is recorded as CUDA graphs: one for a
// micro-step that is not the last (where there are any), and one for the last with all that
// follows, communication included, on its own stream, forked and joined inside the recording. A
// communicator whose calls cannot be recorded (MPI) splits the last graph: backward and the cast to
// the wire; communication, by the host; the cast back and the optimizer (with a sharded optimizer
// there are two more communications, hence two more graphs). What changes from step to
// step lies in memory (inputs, step numbers, learning rates, scales), none of it in the graph. A
// step that is out of the ordinary (a fault, a failed rank) runs eagerly: both ways make the same
// collectives in the same order, so ranks may differ in it.
class TrainStep {
 public:
  TrainStep(StepParts parts, const Config& config, const BatchPlan& plan, PrecisionMode precision,
            FaultInjection fault);
  ~TrainStep();

  // Step number `step` (0-based) with this rank's micro-batches from `source`. Its statistics go
  // into `pipe`. When a micro-step throws, the rank still takes part in every collective of the
  // step and of the steps after it, poisoned so that all ranks skip them, and failure() tells; only
  // a CommError comes out as an exception.
  void run(int64_t step, data::BatchSource& source, StatisticsPipe& pipe);

  // Records the step, whose later runs then replay it. At least kEagerSteps must have run, on the
  // stream that is current now. capturable: the communicator's. Returns "" or why it cannot be; the
  // step goes on eagerly then. Not collective: nothing runs.
  static constexpr int64_t kEagerSteps = 3;
  std::string record(bool capturable);
  // Forgets the recording.
  void drop_graphs();
  bool recorded() const { return !last_.empty(); }

  // What stopped this rank, or null.
  std::exception_ptr failure() const { return failure_; }

  // Runs the forward and backward of `batch` without communication and without a step, and says
  // what is not finite: the loss, or parameters by name; empty when all is finite. Clobbers
  // gradients.
  std::string diagnose(const data::MicroBatch& batch);

  // Optimizer steps applied; synchronises.
  int64_t applied() const { return scalars_.applied(); }
  void set_applied(int64_t applied) { scalars_.set_applied(applied); }

 private:
  void begin();
  at::Tensor forecast_of_inputs();
  at::Tensor loss_of_inputs();
  void micro_step(bool last, bool overflow);
  void communicate();
  void update();
  void apply();
  void explain_failure();
  void run_eagerly(int64_t step, data::BatchSource& source);
  void replay(int64_t step, data::BatchSource& source);
  data::MicroBatch next(int64_t step, data::BatchSource& source);

  StepParts parts_;
  BatchPlan plan_;
  PrecisionMode precision_;
  FaultInjection fault_;
  models::ModelShape shape_;
  SampleLoss loss_;
  std::optional<StepLoss> fused_loss_;  // the same with its gradient, on a GPU
  StepInputs inputs_;
  StepScalars scalars_;
  // A part of the recorded step, and the communication behind it where the step is split there.
  struct Segment {
    std::unique_ptr<StepGraph> graph;
    std::function<void()> communicate;
  };
  std::unique_ptr<StepGraph> micro_;  // a micro-step that is not the last; null where there is none
  std::vector<Segment> last_;         // the last one and the rest of the step
  std::exception_ptr failure_;
};

}  // namespace longship::runtime
