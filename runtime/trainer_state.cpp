// What of a Trainer goes into a checkpoint, and back.

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <cstdio>
#include <map>

#include "runtime/config_dump.h"
#include "runtime/schedule.h"
#include "runtime/trainer.h"
#include "runtime/training_state_io.h"

namespace longship::runtime {
namespace {

constexpr const char* kWireHistory = "wire_history";

std::string hex(uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

nlohmann::json layout_json(const comm::GradientReducer& reducer) {
  nlohmann::json buckets = nlohmann::json::array();
  for (const comm::BucketLayout& bucket : reducer.layout()) {
    buckets.push_back({{"parameters", bucket.parameters},
                       {"offsets", bucket.offsets},
                       {"elements", bucket.elements}});
  }
  return buckets;
}

nlohmann::json number_or_null(const std::optional<double>& value) {
  return value ? nlohmann::json(*value) : nlohmann::json(nullptr);
}

}  // namespace

std::vector<comm::BucketLayout> stored_layout(const TrainingState& state, int ranks) {
  const nlohmann::json& stored = state.scalars;
  std::vector<comm::BucketLayout> layout;
  if (stored.value("ranks", 0) != ranks || !stored.contains("buckets")) return layout;
  for (const nlohmann::json& bucket : stored.at("buckets")) {
    layout.push_back({bucket.at("parameters").get<std::vector<int64_t>>(),
                      bucket.at("offsets").get<std::vector<int64_t>>(),
                      bucket.at("elements").get<int64_t>()});
  }
  return layout;
}

nlohmann::json Trainer::scalars() const {
  const BatchPlan& plan = parts_.plan;
  const LossScalerState scaler = scaler_.state();
  const int64_t applied = train_step_->applied();
  return {
      {"position",
       {{"step", step_},
        {"applied", applied},
        {"epoch", plan.epoch(step_)},
        {"samples", std::min(step_ * plan.batch_size, plan.end_position)},
        {"total_steps", plan.total_steps},
        {"finished", finished()}}},
      {"schedule",
       {{"name", parts_.config.schedule.name},
        {"next_lr", learning_rate(parts_.config.optimizer, parts_.config.schedule, applied,
                                  plan.total_steps)}}},
      {"scaler",
       {{"enabled", scaler_.enabled()},
        {"precision", to_string(parts_.precision)},
        {"scale", scaler.scale},
        {"growth_tracker", scaler.growth_tracker}}},
      {"normalizer", normalizer_json(parts_.dataset->normalizer())},
      {"config", {{"text", dump_config(parts_.config)}}},
      {"data",
       {{"fingerprint", hex(parts_.dataset->fingerprint())},
        {"windows", plan.windows},
        {"series", parts_.dataset->series_count()},
        {"rows", parts_.dataset->rows()},
        {"step_ns", parts_.dataset->step_ns()}}},
      {"order",
       {{"spec", "resident"},
        {"shuffle", parts_.config.data.shuffle},
        {"batch_size", plan.batch_size},
        {"micro_batch_size", plan.micro_batch_size}}},
      {"early_stop",
       {{"best", number_or_null(early_stop_.best)},
        {"best_step", early_stop_.best_step},
        {"evaluations_since_best", early_stop_.evaluations_since_best},
        {"stopped", early_stop_.stopped}}},
      {"seed", {{"seed", parts_.config.run.seed}}},
      {"buckets", layout_json(*reducer_)},
      {"ranks", parts_.context.size()},
  };
}

TrainingState Trainer::capture() const {
  TrainingState state;
  state.step = step_;
  state.applied = train_step_->applied();
  state.weights = model_weights(*parts_.model);
  for (const OptimizerSlot& slot : optimizer_->slots()) {
    state.optimizer.push_back({slot.parameter, slot.state, slot.tensor});
  }
  state.scalars = scalars();
  state.extra.push_back({kWireHistory, reducer_->state()});
  return state;
}

void Trainer::restore(const TrainingState& state) {
  const nlohmann::json& stored = state.scalars;
  const std::string fingerprint = stored.at("data").at("fingerprint").get<std::string>();
  if (fingerprint != hex(parts_.dataset->fingerprint())) {
    throw ConfigError(
        "the training data changed since the checkpoint was written (fingerprint " + fingerprint +
        " then, " + hex(parts_.dataset->fingerprint()) +
        " now): the run cannot go on with the samples that it has not seen; give back the data, or "
        "start a new run under another run.name");
  }
  load_model_weights(*parts_.model, state.weights);
  {
    const at::NoGradGuard no_grad;
    std::map<std::string, at::Tensor> entries;
    std::map<std::string, at::Tensor> slots;
    for (const OptimizerEntry& entry : state.optimizer) {
      entries[entry.state + " of " + entry.parameter] = entry.tensor;
    }
    for (const OptimizerSlot& slot : optimizer_->slots()) {
      slots[slot.state + " of " + slot.parameter] = slot.tensor;
    }
    copy_tensors(entries, slots);
  }
  const nlohmann::json& scaler = stored.at("scaler");
  if (scaler.at("enabled").get<bool>()) {
    scaler_.load_state(
        {scaler.at("scale").get<double>(), scaler.at("growth_tracker").get<int64_t>()});
  }
  const nlohmann::json& early_stop = stored.at("early_stop");
  early_stop_.best.reset();
  if (!early_stop.at("best").is_null()) {
    early_stop_.best = early_stop.at("best").get<double>();
  }
  early_stop.at("best_step").get_to(early_stop_.best_step);
  early_stop.at("evaluations_since_best").get_to(early_stop_.evaluations_since_best);
  // A larger patience revives a run that had stopped early.
  const int64_t patience = parts_.config.eval.patience;
  early_stop_.stopped = early_stop.at("stopped").get<bool>() && patience > 0 &&
                        early_stop_.evaluations_since_best >= patience;
  // The scales' history belongs to a bucket layout, which follows from the bucket size.
  if (stored.contains("buckets") && stored.at("buckets") == layout_json(*reducer_)) {
    for (const NamedTensor& extra : state.extra) {
      if (extra.name == kWireHistory) {
        reducer_->load_state(extra.tensor);
      }
    }
  }
  train_step_->set_applied(state.applied);
  step_ = state.step;
  saved_step_ = state.step;
}

}  // namespace longship::runtime
