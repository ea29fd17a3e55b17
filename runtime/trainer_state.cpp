// What of a Trainer goes into a checkpoint, and back.

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <map>

#include "runtime/checkpoint_files.h"
#include "runtime/config_dump.h"
#include "runtime/schedule.h"
#include "runtime/trainer.h"
#include "runtime/training_state_io.h"

namespace longship::runtime {
namespace {

constexpr const char* kWireHistory = "wire_history";
constexpr const char* kFp8History = "fp8_history";

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

std::string stored_implementation(const TrainingState& state) {
  return state.scalars.value("implementation", "");
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
       {{"fingerprint", hash_text(parts_.dataset->fingerprint())},
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
      {"implementation", implementation_},
  };
}

TrainingState Trainer::capture() const {
  TrainingState state;
  state.step = step_;
  state.applied = train_step_->applied();
  state.weights = model_weights(*parts_.model);
  state.optimizer = optimizer_->state();
  state.scalars = scalars();
  state.extra.push_back({kWireHistory, reducer_->state()});
  if (fp8_) state.extra.push_back({kFp8History, fp8_->state()});
  return state;
}

void Trainer::restore(const TrainingState& state) {
  const nlohmann::json& stored = state.scalars;
  const std::string fingerprint = stored.at("data").at("fingerprint").get<std::string>();
  if (fingerprint != hash_text(parts_.dataset->fingerprint())) {
    throw ConfigError(
        "the training data changed since the checkpoint was written (fingerprint " + fingerprint +
        " then, " + hash_text(parts_.dataset->fingerprint()) +
        " now): the run cannot go on with the samples that it has not seen; give back the data, or "
        "start a new run under another run.name");
  }
  const nlohmann::json& order = stored.at("order");
  const auto check_order = [](const char* what, const nlohmann::json& then, int64_t now) {
    if (then.get<int64_t>() == now) return;
    throw ConfigError(
        "the checkpoint was written with " + std::string(what) + " " +
        std::to_string(then.get<int64_t>()) + ", this run has " + std::to_string(now) +
        ": it cannot go on with the samples that it has not seen; give the old value");
  };
  check_order("run.seed", stored.at("seed").at("seed"), parts_.config.run.seed);
  check_order("train.batch_size", order.at("batch_size"), parts_.plan.batch_size);
  check_order("train.micro_batch_size", order.at("micro_batch_size"), parts_.plan.micro_batch_size);
  check_order("data.shuffle", order.at("shuffle").get<bool>() ? 1 : 0,
              parts_.config.data.shuffle ? 1 : 0);
  const int64_t seen = stored.at("position").value("samples", state.step * parts_.plan.batch_size);
  if (seen < state.step * parts_.plan.batch_size && state.step < parts_.plan.total_steps) {
    parts_.context.log->warn(
        "the run was at its end with step {}, which held {} samples less than others: so many "
        "windows of its last epoch are passed over now",
        state.step, state.step * parts_.plan.batch_size - seen);
  }
  load_model_weights(*parts_.model, state.weights);
  {
    const at::NoGradGuard no_grad;
    std::map<std::string, at::Tensor> entries;
    std::map<std::string, at::Tensor> mine;
    for (const OptimizerEntry& entry : state.optimizer) {
      entries[entry.state + " of " + entry.parameter] = entry.tensor;
    }
    for (const OptimizerEntry& entry : optimizer_->state()) {
      const std::string name = entry.state + " of " + entry.parameter;
      mine[name] = entry.tensor;
      const auto whole = entries.find(name);
      if (entry.part && whole != entries.end() &&
          whole->second.sizes() == at::IntArrayRef(entry.part->shape)) {
        whole->second =
            whole->second.reshape({-1}).narrow(0, entry.part->begin, entry.tensor.numel());
      }
    }
    copy_tensors(entries, mine);
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
  // The scales' history belongs to a bucket layout.
  if (stored.contains("buckets") && stored.at("buckets") == layout_json(*reducer_)) {
    for (const NamedTensor& extra : state.extra) {
      if (extra.name == kWireHistory) {
        reducer_->load_state(extra.tensor);
      }
    }
  }
  for (const NamedTensor& extra : state.extra) {
    if (fp8_ && extra.name == kFp8History) fp8_->load_state(extra.tensor);
  }
  train_step_->set_applied(state.applied);
  step_ = state.step;
  saved_step_ = state.step;
}

}  // namespace longship::runtime
