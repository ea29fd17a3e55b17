#include "runtime/train_step.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>

#include <limits>
#include <utility>

#include "comm/error.h"
#include "runtime/device_memory.h"
#include "runtime/model_setup.h"

namespace longship::runtime {

TrainStep::TrainStep(StepParts parts, const Config& config, const BatchPlan& plan,
                     PrecisionMode precision, FaultInjection fault)
    : parts_(parts),
      plan_(plan),
      precision_(precision),
      fault_(std::move(fault)),
      shape_(model_shape(config)),
      loss_(make_loss(config.train, parts.device)),
      inputs_(static_cast<uint64_t>(config.run.seed), parts.device, parts.series),
      scalars_(config, plan_.total_steps, parts.scaler, parts.device) {
  parts_.reducer.set_loss_scale(parts_.scaler.scale());
  if (parts.device.is_cuda()) fused_loss_.emplace(config.train, parts.device);
}

TrainStep::~TrainStep() = default;

void TrainStep::begin() {
  parts_.reducer.zero();
  scalars_.loss_sum().zero_();
}

at::Tensor TrainStep::forecast_of_inputs() {
  inputs_.gather();
  const AutocastGuard autocast(precision_, parts_.device);
  return parts_.model.forward(inputs_.model_inputs()).values;
}

// The share of the micro-batch in place in the step's mean loss. Every sample of the step weighs
// the same, so a full micro-batch's mean weighs 1 / G, and padding at the end of the run weighs
// nothing.
at::Tensor TrainStep::loss_of_inputs() {
  const at::Tensor per_sample = loss_(forecast_of_inputs(), inputs_.target());
  return (per_sample * inputs_.weight()).sum() / inputs_.samples();
}

void TrainStep::micro_step(bool last, bool overflow) {
  parts_.reducer.begin_micro_step(last);
  if (fused_loss_ && !overflow) {
    const at::Tensor forecast = forecast_of_inputs();
    forecast.backward(fused_loss_->gradient(forecast, inputs_.target(), inputs_.weight(),
                                            inputs_.samples(), parts_.scaler.scale(),
                                            scalars_.loss_sum()));
    return;
  }
  at::Tensor loss = loss_of_inputs();
  if (overflow) {
    loss = loss * std::numeric_limits<float>::infinity();
  }
  (loss * parts_.scaler.scale()).backward();
  scalars_.loss_sum().add_(loss.detach());
}

// What the host does in the middle of a step that is split around its communication.
void TrainStep::communicate() {
  parts_.reducer.communicate();
  if (parts_.fp8 != nullptr) parts_.fp8->agree();
}

// What this rank updates, once it is decided.
void TrainStep::update() {
  const at::NoGradGuard no_grad;
  if (parts_.fp8 != nullptr) parts_.fp8->update();
  if (parts_.reducer.sharded()) {
    scalars_.finish_by_squares(parts_.reducer.squares());
  } else {
    scalars_.finish(parts_.reducer.reduced());
  }
  parts_.optimizer.step(scalars_.decision());
}

// What follows once the gradients are reduced.
void TrainStep::apply() {
  comm::GradientReducer& reducer = parts_.reducer;
  if (!reducer.sharded()) {
    update();
    return;
  }
  reducer.measure();
  reducer.share_measure();
  update();
  reducer.pack_parameters();
  reducer.communicate_parameters();
  reducer.unpack_parameters();
}

data::MicroBatch TrainStep::next(int64_t step, data::BatchSource& source) {
  data::MicroBatch batch = source.next();
  fault_.strike(step + 1);
  return batch;
}

void TrainStep::run_eagerly(int64_t step, data::BatchSource& source) {
  if (!failure_) {
    try {
      const int64_t micro_steps = plan_.micro_steps();
      for (int64_t m = 0; m < micro_steps; ++m) {
        inputs_.load(next(step, source));
        micro_step(/*last=*/m + 1 == micro_steps, fault_.overflow(step + 1));
      }
    } catch (const comm::CommError&) {
      throw;
    } catch (...) {
      failure_ = std::current_exception();
    }
    if (failure_) {
      parts_.reducer.poison();
      explain_failure();
    }
  }
  if (failure_) {
    parts_.reducer.poison();
  }
  scalars_.wait_begins();
  parts_.reducer.finalize();
  if (parts_.fp8 != nullptr) parts_.fp8->agree();
  scalars_.wait_ends();
  apply();
}

// Out of the handler: what the failed step held is free only once its exception has left it. Tries
// micro-batches, so the reducer must be poisoned.
void TrainStep::explain_failure() {
  const std::exception_ptr explained = out_of_memory_error(
      failure_, parts_.model, shape_, plan_.batch_size, plan_.micro_batch_size, parts_.device);
  if (explained) failure_ = explained;
}

void TrainStep::replay(int64_t step, data::BatchSource& source) {
  const int64_t micro_steps = plan_.micro_steps();
  // A step of one micro-step has it recorded.
  if (micro_steps > 1) begin();
  try {
    for (int64_t m = 0; m + 1 < micro_steps; ++m) {
      inputs_.load(next(step, source));
      micro_->replay();
    }
    inputs_.load(next(step, source));
  } catch (...) {
    // Nothing has been sent in this step, so it can be ended as any other failed one.
    failure_ = std::current_exception();
    begin();
    run_eagerly(step, source);
    return;
  }
  for (const Segment& segment : last_) {
    segment.graph->replay();
    if (segment.communicate) segment.communicate();
  }
}

void TrainStep::run(int64_t step, data::BatchSource& source, StatisticsPipe& pipe) {
  if (recorded() && !failure_ && !fault_.overflow(step + 1)) {
    replay(step, source);
  } else {
    begin();
    run_eagerly(step, source);
  }
  pipe.push(step + 1, scalars_.numbers());
}

std::string TrainStep::record(bool capturable) {
  if (failure_) {
    return "this rank has failed";
  }
  std::string reason;
  comm::GradientReducer& reducer = parts_.reducer;
  try {
    // The graphs have a pool of their own: what eager steps left in the common one would be
    // missing.
    c10::cuda::getCurrentCUDAStream(parts_.device.index()).synchronize();
    c10::cuda::CUDACachingAllocator::emptyCache();
    const std::shared_ptr<StepGraph::Pool> pool = StepGraph::make_pool();
    const auto graph = [&](const std::function<void()>& work) {
      return std::make_unique<StepGraph>(pool, parts_.device, work);
    };
    const bool single = plan_.micro_steps() == 1;
    begin();
    if (!single) {
      micro_ = graph([this] { micro_step(/*last=*/false, /*overflow=*/false); });
    }
    const auto segment = [&](const std::function<void()>& work,
                             std::function<void()> communicate = nullptr) {
      last_.push_back({graph(work), std::move(communicate)});
    };
    const auto last_micro_step = [&] {
      if (single) begin();
      micro_step(/*last=*/true, /*overflow=*/false);
    };
    if (capturable) {
      segment([&] {
        last_micro_step();
        scalars_.wait_begins();
        reducer.finalize();
        if (parts_.fp8 != nullptr) parts_.fp8->agree();
        scalars_.wait_ends();
        apply();
      });
    } else {
      reducer.set_overlap(false);
      segment(
          [&] {
            last_micro_step();
            reducer.pack();
            scalars_.wait_begins();
          },
          [this] { communicate(); });
      const auto receive = [&] {
        scalars_.wait_ends();
        reducer.unpack();
      };
      if (reducer.sharded()) {
        segment(
            [&] {
              receive();
              reducer.measure();
            },
            [&reducer] { reducer.share_measure(); });
        segment(
            [&] {
              update();
              reducer.pack_parameters();
            },
            [&reducer] { reducer.communicate_parameters(); });
        segment([&] { reducer.unpack_parameters(); });
      } else {
        segment([&] {
          receive();
          update();
        });
      }
    }
  } catch (const std::exception& error) {
    drop_graphs();
    reason = error.what();
    reason = reason.substr(0, reason.find('\n'));
  }
  reducer.set_overlap(true);
  reducer.zero();
  return reason;
}

void TrainStep::drop_graphs() {
  micro_.reset();
  last_.clear();
}

std::string TrainStep::diagnose(const data::MicroBatch& batch) {
  parts_.reducer.zero();
  parts_.reducer.begin_micro_step(/*last=*/false);
  inputs_.load(batch);
  const at::Tensor loss = loss_of_inputs();
  const std::string where = " of micro-batch " + std::to_string(batch.micro_batch);
  if (!loss.isfinite().item<bool>()) {
    return "the loss" + where + (loss.isnan().item<bool>() ? " is not a number" : " is infinite");
  }
  (loss * parts_.scaler.scale()).backward();
  for (const auto& parameter : parts_.model.named_parameters()) {
    const at::Tensor& gradient = parameter.value().grad();
    if (gradient.defined() && !gradient.isfinite().all().item<bool>()) {
      return "the gradient of " + parameter.key() + where + " is not finite";
    }
  }
  return "";
}

}  // namespace longship::runtime
