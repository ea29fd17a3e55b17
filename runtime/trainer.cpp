#include "runtime/trainer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <utility>

#include "comm/text_collectives.h"
#include "runtime/agreement.h"
#include "runtime/bucket_choice.h"
#include "runtime/device_memory.h"
#include "runtime/implementation_choice.h"
#include "runtime/model_setup.h"
#include "runtime/run_plan.h"
#include "runtime/stop_signals.h"
#include "runtime/trainer_parts.h"

namespace longship::runtime {
namespace {

constexpr int64_t kDefaultLogEvery = 25;
constexpr double kLowLossScale = 128;

// Passes micro-batches on and writes which windows they held, one JSON object a line.
class RecordedSource : public data::BatchSource {
 public:
  RecordedSource(data::BatchSource& source, const std::string& path) : source_(source) {
    if (!path.empty()) {
      file_.open(path, std::ios::app);
      if (!file_) {
        throw ConfigError("cannot write " + path + " (log.sample_order)");
      }
    }
  }

  data::MicroBatch next() override {
    data::MicroBatch batch = source_.next();
    if (file_.is_open()) {
      nlohmann::json line = {
          {"step", batch.step + 1}, {"micro_batch", batch.micro_batch}, {"windows", batch.windows}};
      file_ << line.dump() << '\n' << std::flush;
    }
    return batch;
  }

 private:
  data::BatchSource& source_;
  std::ofstream file_;
};

}  // namespace

bool EarlyStop::observe(double metric, int64_t step, int64_t patience) {
  if (std::isfinite(metric) && (!best || metric < *best)) {
    best = metric;
    best_step = step;
    evaluations_since_best = 0;
    return true;
  }
  ++evaluations_since_best;
  stopped = patience > 0 && evaluations_since_best >= patience;
  return false;
}

Trainer::Trainer(TrainerParts parts)
    : parts_(std::move(parts)),
      order_(static_cast<uint64_t>(parts_.config.run.seed), parts_.dataset->fingerprint(),
             parts_.plan.windows, parts_.config.data.shuffle),
      scaler_(parts_.precision, parts_.config.precision.init_scale,
              parts_.config.precision.growth_interval, parts_.context.device),
      pipe_(parts_.context.device, std::chrono::seconds(parts_.config.comm.timeout_s)),
      channel_(parts_.context.votes),
      log_every_(parts_.config.log.every_steps > 0 ? parts_.config.log.every_steps
                                                   : kDefaultLogEvery) {
  collectively(parts_.context.host, parts_.context.host_name, [this] {
    choose_implementation();
    reducer_ = choose_reducer();
    optimizer_ = make_optimizer(parts_.config.optimizer, updated_parts(*parts_.model, *reducer_));
    place_data();
    if (parts_.precision == PrecisionMode::kFp8) {
      check_fp8(parts_.config, *parts_.model);
      fp8_ = std::make_unique<Fp8Scaling>(*parts_.model, parts_.context.gradients,
                                          parts_.context.device);
    }
    train_step_ =
        std::make_unique<TrainStep>(StepParts{*parts_.model, *reducer_, *optimizer_, scaler_,
                                              parts_.context.device, series_.get(), fp8_.get()},
                                    parts_.config, parts_.plan, parts_.precision,
                                    FaultInjection::from_environment(parts_.context.rank()));
  });
  check_equal_start();
}

Trainer::~Trainer() = default;

// By the speed of a micro-batch on the slowest rank, unless a run that goes on has chosen before:
// another implementation rounds in other places.
void Trainer::choose_implementation() {
  Context& context = parts_.context;
  parts_.model->train();
  const std::vector<TimedImplementation> timed = time_on_all_ranks(
      *parts_.model, parts_.plan.micro_batch_size, model_shape(parts_.config), parts_.precision,
      /*as_graph=*/parts_.config.train.graph != "off", context.device, context.host,
      context.host_name, parts_.implementation);
  if (timed.empty()) return;
  implementation_ = fastest(timed);
  parts_.model->use_implementation(implementation_);
  if (implementation_ == parts_.implementation) {
    context.log->info("model computed by {}, as in this run before", implementation_);
  } else {
    context.log->info("model computed by {} for a micro-batch's forward and backward",
                      choice_text(implementation_, timed));
  }
}

// The buckets: as they were, or by the order of backward and, where their size is left open, by the
// speed of this communicator. Rank 0's order is everybody's.
std::unique_ptr<comm::GradientReducer> Trainer::choose_reducer() {
  Context& context = parts_.context;
  comm::ReducerOptions options = reducer_options(parts_.config);
  if (parts_.layout) options.layout = *parts_.layout;
  if (options.layout.empty()) {
    std::vector<int64_t> order;
    collectively(context.host, context.host_name, [&] {
      order = backward_order(*parts_.model, model_shape(parts_.config), parts_.precision,
                             context.device);
    });
    const at::Tensor agreed = at::tensor(order, at::kLong);
    context.host.broadcast(agreed, /*root=*/0);
    const auto* numbers = agreed.const_data_ptr<int64_t>();
    options.order.assign(numbers, numbers + agreed.numel());
    if (parts_.config.comm.bucket_mib <= 0 && context.size() > 1) {
      const int64_t wire_bytes = options.wire == comm::WireFormat::kFp32 ? 4 : 2;
      options.bucket_bytes = bucket_bytes_for(
          measure_communicator(context.gradients, context.host, context.device), wire_bytes);
      options.first_bucket_bytes = std::min(options.first_bucket_bytes, options.bucket_bytes);
    }
  }
  return make_reducer(std::move(options), *parts_.model, context.gradients);
}

// Where the series are in the GPU's memory, the host sends row numbers in place of windows.
void Trainer::place_data() {
  const c10::Device device = parts_.context.device;
  const std::string& residence = parts_.config.data.residence;
  const bool graph_on = parts_.config.train.graph == "on";
  if (!device.is_cuda()) {
    if (graph_on || residence == "device") {
      throw ConfigError(std::string(graph_on ? "train.graph: on" : "data.residence: device") +
                        " needs a GPU, and this run trains on CPUs: set it to auto");
    }
    return;
  }
  to_record_ = parts_.config.train.graph != "off";
  if (resides_on_device(*parts_.dataset, residence, device)) {
    series_ = std::make_unique<data::DeviceSeries>(*parts_.dataset, device);
  }
}

data::LoaderPlan Trainer::loader_plan(int64_t first_step) const {
  data::LoaderPlan plan = parts_.plan.loader_plan(first_step);
  plan.rows_only = series_ != nullptr;
  return plan;
}

// See Note [Whole-step graphs]. All ranks reach it after the same number of steps.
void Trainer::record_step() {
  to_record_ = false;
  agree(parts_.context.host, parts_.context.host_name, failure());
  const std::string reason = train_step_->record(parts_.context.gradients.capturable());
  const std::vector<std::string> reasons = comm::all_gather_text(parts_.context.host, reason);
  for (size_t rank = 0; rank < reasons.size(); ++rank) {
    if (reasons[rank].empty()) continue;
    // One way for all, so that a step takes the same time everywhere.
    train_step_->drop_graphs();
    const std::string text =
        "the step cannot run as a CUDA graph: rank " + std::to_string(rank) + ": " + reasons[rank];
    if (parts_.config.train.graph == "on") {
      throw AgreedError(ExitCode::kInput, text + "; set train.graph to auto to train eagerly");
    }
    parts_.context.log->warn("graph=off: {}; training goes on eagerly", text);
    return;
  }
  parts_.context.log->info(
      "graph=on: from step {} on the whole step runs as a CUDA graph{}", step_ + 1,
      parts_.context.gradients.capturable()
          ? ""
          : " in parts around the communication over " + parts_.context.gradients.backend());
}

// A rank that starts from other weights would never be noticed: gradients are averaged all the
// same.
void Trainer::check_equal_start() {
  const int64_t mine = parameter_checksum(*parts_.model);
  const at::Tensor extremes = at::tensor({mine, -mine}, at::kLong);
  parts_.context.host.all_reduce(extremes, comm::ReduceOp::kMax);
  if (extremes[0].item<int64_t>() != -extremes[1].item<int64_t>()) {
    throw AgreedError(ExitCode::kInternal,
                      "the ranks start from different weights: are all of them the same build on "
                      "the same kind of machine?");
  }
}

void Trainer::report_to(std::vector<MetricSink*> sinks, Progress* progress) {
  sinks_ = std::move(sinks);
  progress_ = progress;
}

bool Trainer::finished() const {
  return early_stop_.stopped || step_ >= parts_.plan.total_steps;
}

ExitCode Trainer::run() {
  const StopSignals signals;
  parts_.model->train();
  saved_at_ = std::chrono::steady_clock::now();
  interval_.begin = saved_at_;
  data::BatchLoader loader(parts_.dataset, order_, loader_plan(step_), parts_.context.device);
  std::unique_ptr<RecordedSource> source;
  collectively(parts_.context.host, parts_.context.host_name,
               [&] { source = std::make_unique<RecordedSource>(loader, parts_.order_log); });
  if (step_ == 0 && parts_.config.checkpoint.at_start) {
    save(/*best=*/false);
  }

  while (!finished()) {
    if (to_record_ && steps_run_ >= TrainStep::kEagerSteps && reducer_->settled()) {
      record_step();
    }
    train_step_->run(step_, *source, pipe_);
    ++steps_run_;
    ++step_;
    if (steps_run_ == 1) {
      for (const std::string& line : parts_.model->report()) parts_.context.log->info("{}", line);
    }
    take_statistics(/*all=*/false);
    cast_votes();
    Decision decision = channel_.after_step();
    if (finished()) {
      const Decision late = channel_.drain();
      decision.error = decision.error || late.error;
    }
    if (decision.error) {
      settle();
    }
    const bool best = evaluation_due() && run_evaluation();
    if (best || finished() || save_due(decision)) {
      save(best);
    }
    if (decision.stop && !finished()) {
      channel_.drain();
      if (progress_ != nullptr) progress_->finish();
      parts_.context.log->info("stopped at step {} of {}; start it again to go on", step_,
                               parts_.plan.total_steps);
      return ExitCode::kStopped;
    }
  }
  channel_.drain();
  tell_memory();
  return ExitCode::kDone;
}

// What the run took, by its hungriest rank.
void Trainer::tell_memory() {
  const c10::Device device = parts_.context.device;
  const at::Tensor peak = at::full({1}, peak_device_memory(device), at::kLong);
  parts_.context.host.all_reduce(peak, comm::ReduceOp::kMax);
  if (device.is_cuda()) {
    parts_.context.log->info("peak device memory of a rank: {}",
                             bytes_text(static_cast<double>(peak.item<int64_t>())));
  }
}

// Reads what earlier steps left behind. Every rank reads the same steps at the same point, so that
// the collectives in log_interval() and the end on divergence are reached by all.
void Trainer::take_statistics(bool all) {
  while (const std::optional<StepStatistics> statistics = pipe_.pop(all)) {
    ++interval_.steps;
    interval_.exposed_comm_ms += statistics->exposed_comm_ms;
    if (statistics->skipped) {
      ++interval_.skipped;
    } else {
      interval_.loss += statistics->loss;
      ++interval_.good_steps;
    }
    if (statistics->consecutive_skips >= parts_.config.train.max_skipped) {
      end_as_diverged(*statistics);
    }
    if (statistics->step % log_every_ == 0 || statistics->step == parts_.plan.total_steps) {
      log_interval(*statistics);
    }
  }
}

// A disk that is full for one rank's records ends the run on all, by a vote.
void Trainer::write(const MetricRecord& record) {
  try {
    for (MetricSink* sink : sinks_) sink->write(record);
  } catch (const std::exception&) {
    if (!own_failure_) own_failure_ = std::current_exception();
  }
}

void Trainer::log_interval(const StepStatistics& last) {
  // The loss is the mean over the interval's steps that were applied; a skipped step has none.
  const at::Tensor loss = at::full({1}, interval_.loss, at::kDouble);
  parts_.context.host.all_reduce(loss, comm::ReduceOp::kSum);
  const double seconds = std::chrono::duration<double>(last.ended - interval_.begin).count();

  MetricRecord record;
  record.step = last.step;
  record.applied = last.applied;
  record.epoch = parts_.plan.epoch(last.step);
  record.split = "train";
  record.loss = interval_.good_steps > 0
                    ? loss.item<double>() / static_cast<double>(interval_.good_steps)
                    : std::nan("");
  record.grad_norm = last.grad_norm;
  record.lr = last.lr;
  record.loss_scale = last.loss_scale;
  record.skipped = interval_.skipped;
  record.samples_per_s =
      static_cast<double>(interval_.steps * parts_.plan.batch_size) / std::max(seconds, 1e-9);
  record.exposed_comm_ms = interval_.exposed_comm_ms / static_cast<double>(interval_.steps);
  write(record);
  if (progress_ != nullptr) {
    progress_->update(record);
  }
  if (scaler_.enabled() && last.loss_scale < kLowLossScale && !low_scale_said_) {
    parts_.context.log->warn(
        "step {}: the loss scale has fallen to {}: gradients overflow again and again; lower the "
        "learning rate, clip (train.clip_norm) or train in bf16",
        last.step, last.loss_scale);
    low_scale_said_ = true;
  }
  interval_ = LogInterval{};
  interval_.begin = last.ended;
}

// The optimizer has done nothing for max_skipped steps, on every rank alike. Unless one of the two
// steps that were under way meanwhile was applied, the weights are those of the last applied step,
// so the step can be run again to find out where the first value went wrong.
void Trainer::end_as_diverged(const StepStatistics& last) {
  agree(parts_.context.host, parts_.context.host_name, failure());
  std::string finding;
  collectively(parts_.context.host, parts_.context.host_name, [&] {
    data::LoaderPlan plan = loader_plan(last.step - 1);
    plan.end_step = last.step;
    data::BatchLoader loader(parts_.dataset, order_, plan, parts_.context.device);
    for (int64_t m = 0; m < parts_.plan.micro_steps() && finding.empty(); ++m) {
      finding = train_step_->diagnose(loader.next());
    }
  });
  const std::vector<std::string> findings = comm::all_gather_text(parts_.context.host, finding);
  std::string text = "training diverged: the last " + std::to_string(last.consecutive_skips) +
                     " steps up to step " + std::to_string(last.step) +
                     " gave gradients that are not finite and were skipped";
  for (size_t rank = 0; rank < findings.size(); ++rank) {
    if (!findings[rank].empty()) {
      text += "; on rank " + std::to_string(rank) + " " + findings[rank];
      break;
    }
  }
  text += saved_step_ < 0 ? ". There is no checkpoint"
                          : ". The newest checkpoint is of step " + std::to_string(saved_step_);
  text += "; lower optimizer.lr, set train.clip_norm, or look at the data.";
  throw AgreedError(ExitCode::kDiverged, text);
}

// Before anything but a step: no rank may have failed, and no statistics may be outstanding.
void Trainer::settle() {
  agree(parts_.context.host, parts_.context.host_name, failure());
  take_statistics(/*all=*/true);
}

// What keeps this rank from going on, or null.
std::exception_ptr Trainer::failure() const {
  return train_step_->failure() ? train_step_->failure() : own_failure_;
}

void Trainer::cast_votes() {
  if (parts_.run_directory != nullptr && !parts_.run_directory->refresh() && !own_failure_) {
    own_failure_ = std::make_exception_ptr(
        ConfigError("another job has taken over the run in " + parts_.run_directory->root() +
                    " while this one was suspended; this one ends without writing"));
  }
  if (failure()) {
    channel_.cast(Vote::kError);
  }
  if (StopSignals::received() != 0) {
    channel_.cast(Vote::kStop);
  }
  // One clock decides for all.
  const double minutes = parts_.config.checkpoint.every_minutes;
  const std::chrono::duration<double, std::ratio<60>> since_save =
      std::chrono::steady_clock::now() - saved_at_;
  if (parts_.context.leader() && minutes > 0 && since_save.count() >= minutes && !save_voted_) {
    channel_.cast(Vote::kSave);
    save_voted_ = true;
  }
}

bool Trainer::evaluation_due() const {
  const Config::Eval& eval = parts_.config.eval;
  if (parts_.dataset->windows(data::Split::kValidation) == 0 ||
      (eval.every_epochs <= 0 && eval.every_steps <= 0)) {
    return false;
  }
  const auto evaluations = [&](int64_t step) {
    return std::floor(parts_.plan.epoch(step) / eval.every_epochs);
  };
  return step_ == parts_.plan.total_steps ||
         (eval.every_steps > 0 && step_ % eval.every_steps == 0) ||
         (eval.every_epochs > 0 && evaluations(step_) > evaluations(step_ - 1));
}

bool Trainer::save_due(const Decision& decision) const {
  const int64_t every = parts_.config.checkpoint.every_steps;
  return decision.save || decision.stop || (every > 0 && step_ % every == 0);
}

// True when this evaluation is the best so far.
bool Trainer::run_evaluation() {
  settle();
  const auto begin = std::chrono::steady_clock::now();
  const Config& config = parts_.config;
  EvaluationRequest request;
  request.split = data::Split::kValidation;
  request.batch_size = config.eval.batch_size;
  request.max_windows = config.eval.max_windows;
  request.point_output = point_output(config.train);
  const Evaluation evaluation =
      evaluate(*parts_.model, *parts_.dataset, request, parts_.precision, parts_.context.device,
               parts_.context.host, parts_.context.host_name);
  if (evaluation.observed_values() == 0) {
    parts_.context.log->warn(
        "step {}: the validation windows hold no observed value of a target, so that the model "
        "cannot be judged (data.split)",
        step_);
    return false;
  }
  const Scores normalized = evaluation.normalized(Evaluation::Of::kModel);
  const Scores original = evaluation.original(Evaluation::Of::kModel);
  const double metric = config.eval.metric == "mae" ? normalized.mae : normalized.mse;
  const bool best = early_stop_.observe(metric, step_, config.eval.patience);

  MetricRecord record;
  record.step = step_;
  record.applied = train_step_->applied();
  record.epoch = parts_.plan.epoch(step_);
  record.split = data::to_string(data::Split::kValidation);
  record.loss = metric;
  record.extra = {{"mse", normalized.mse},
                  {"mae", normalized.mae},
                  {"rmse_original", original.rmse},
                  {"mae_original", original.mae}};
  write(record);
  parts_.context.log->info("step {}: validation {} {:.6g} (rmse {:.4g} in original units){}", step_,
                           config.eval.metric, metric, original.rmse,
                           best ? ", the best so far" : "");
  if (early_stop_.stopped) {
    parts_.context.log->info(
        "step {}: stopping early: no better {} for {} evaluations (eval.patience); the best was "
        "{:.6g} at step {}",
        step_, config.eval.metric, early_stop_.evaluations_since_best,
        early_stop_.best.value_or(std::nan("")), early_stop_.best_step);
  }
  interval_.begin += std::chrono::steady_clock::now() - begin;
  return best;
}

void Trainer::save(bool best) {
  settle();
  if (parts_.checkpointer == nullptr) return;
  const TrainingState state = capture();
  const at::Tensor spoiled = at::full({1}, all_finite(state) ? 0 : 1, at::kInt);
  parts_.context.host.all_reduce(spoiled, comm::ReduceOp::kMax);
  if (spoiled.item<int>() != 0) {
    throw AgreedError(ExitCode::kDiverged,
                      "training diverged: the weights at step " + std::to_string(step_) +
                          " are not finite; no checkpoint of them was written");
  }
  const auto begin = std::chrono::steady_clock::now();
  const std::string path = parts_.checkpointer->save(state, best);
  saved_at_ = std::chrono::steady_clock::now();
  saved_step_ = step_;
  save_voted_ = false;
  parts_.context.log->info("step {}: checkpoint {} written in {:.2f} s", step_, path,
                           std::chrono::duration<double>(saved_at_ - begin).count());
  interval_.begin += saved_at_ - begin;
}

}  // namespace longship::runtime
