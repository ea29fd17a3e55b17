#include "runtime/train_step.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <limits>
#include <utility>

#include "comm/error.h"
#include "runtime/schedule.h"

namespace longship::runtime {

TrainStep::TrainStep(StepParts parts, const Config& config, BatchPlan plan, PrecisionMode precision,
                     FaultInjection fault)
    : parts_(parts),
      plan_(std::move(plan)),
      precision_(precision),
      fault_(std::move(fault)),
      loss_(make_loss(config.train)),
      seed_(static_cast<uint64_t>(config.run.seed)),
      clip_norm_(config.train.clip_norm),
      learning_rates_(
          learning_rate_table(config.optimizer, config.schedule, plan_.total_steps, parts.device)) {
  const auto options = at::TensorOptions().device(parts.device);
  applied_ = at::zeros({1}, options.dtype(at::kLong));
  consecutive_skips_ = at::zeros({}, options.dtype(at::kFloat));
  loss_sum_ = at::zeros({}, options.dtype(at::kFloat));
  parts_.reducer.set_loss_scale(parts_.scaler.scale());
}

// This micro-batch's share of the step's mean loss. Every sample of the step weighs the same, so a
// full micro-batch's mean weighs 1 / G, and padding at the end of the run weighs nothing.
at::Tensor TrainStep::loss_of(int64_t step, const data::MicroBatch& batch) {
  models::Inputs inputs;
  inputs.past = batch.batch.past;
  inputs.random = {seed_, step, batch.micro_batch};
  models::Forecast forecast;
  {
    const AutocastGuard autocast(precision_, parts_.device);
    forecast = parts_.model.forward(inputs);
  }
  const at::Tensor per_sample = loss_(forecast.values, batch.batch.target);
  return (per_sample * batch.weight).sum() / static_cast<double>(plan_.samples(step));
}

void TrainStep::accumulate(int64_t step, data::BatchSource& source) {
  const int64_t micro_steps = plan_.micro_steps();
  for (int64_t m = 0; m < micro_steps; ++m) {
    const data::MicroBatch batch = source.next();
    fault_.strike(step + 1);
    parts_.reducer.begin_micro_step(/*last=*/m + 1 == micro_steps);
    at::Tensor loss = loss_of(step, batch);
    if (fault_.overflow(step + 1)) {
      loss = loss * std::numeric_limits<float>::infinity();
    }
    (loss * parts_.scaler.scale()).backward();
    loss_sum_.add_(loss.detach());
  }
}

// Scales the gradients so that their global norm is at most clip_norm (as
// torch.nn.utils.clip_grad_norm_ does) and returns the norm before.
at::Tensor TrainStep::clip() {
  const std::vector<at::Tensor>& buckets = parts_.reducer.buckets();
  const at::Tensor norm = at::stack(at::_foreach_norm(buckets)).norm();
  if (clip_norm_ > 0) {
    const at::Tensor factor = (clip_norm_ / (norm + 1e-6)).clamp_max(1.0);
    at::_foreach_mul_(buckets, factor);
  }
  return norm;
}

void TrainStep::run(int64_t step, data::BatchSource& source, StatisticsPipe& pipe) {
  parts_.reducer.zero();
  loss_sum_.zero_();
  if (!failure_) {
    try {
      accumulate(step, source);
    } catch (const comm::CommError&) {
      throw;
    } catch (...) {
      failure_ = std::current_exception();
    }
  }
  if (failure_) {
    parts_.reducer.poison();
  }
  pipe.communication_begins();
  parts_.reducer.finalize();
  pipe.communication_ends();

  const at::NoGradGuard no_grad;
  const at::Tensor scale_used = parts_.scaler.scale().clone();
  parts_.scaler.unscale(parts_.reducer.buckets());
  const at::Tensor norm = clip();
  const at::Tensor lr = learning_rates_.index_select(0, applied_).squeeze(0);
  const at::Tensor& skipped = parts_.scaler.found_inf();
  parts_.optimizer.step(lr, (applied_ + 1).to(at::kFloat).squeeze(0), skipped);
  // A skipped step counts neither for the schedule nor for Adam's bias correction.
  applied_.add_(1 - skipped.to(at::kLong));
  consecutive_skips_.add_(1).mul_(skipped);
  parts_.scaler.update();

  pipe.push(step + 1,
            at::stack({loss_sum_.to(at::kDouble), norm.to(at::kDouble), skipped.to(at::kDouble),
                       scale_used.to(at::kDouble), lr.to(at::kDouble),
                       applied_.squeeze(0).to(at::kDouble), consecutive_skips_.to(at::kDouble)}));
}

std::string TrainStep::diagnose(int64_t step, const data::MicroBatch& batch) {
  parts_.reducer.zero();
  parts_.reducer.begin_micro_step(/*last=*/false);
  const at::Tensor loss = loss_of(step, batch);
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

int64_t TrainStep::applied() const {
  return applied_.item<int64_t>();
}

void TrainStep::set_applied(int64_t applied) {
  applied_.fill_(applied);
}

}  // namespace longship::runtime
