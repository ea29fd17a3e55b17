#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/gradient_reducer.h"
#include "data/batch_loader.h"
#include "data/dataset.h"
#include "data/device_series.h"
#include "models/forecaster.h"
#include "runtime/batch_plan.h"
#include "runtime/checkpoint.h"
#include "runtime/config.h"
#include "runtime/context.h"
#include "runtime/control_channel.h"
#include "runtime/error.h"
#include "runtime/evaluator.h"
#include "runtime/logging.h"
#include "runtime/metrics.h"
#include "runtime/optimizer.h"
#include "runtime/precision.h"
#include "runtime/run_directory.h"
#include "runtime/step_statistics.h"
#include "runtime/train_step.h"

namespace longship::runtime {

// Best evaluation so far, and whether training has stopped because no better one came.
struct EarlyStop {
  std::optional<double> best;
  int64_t best_step = 0;
  int64_t evaluations_since_best = 0;
  bool stopped = false;

  // Takes in a metric (lower is better; a NaN is never the best); true when it is the best so far.
  bool observe(double metric, int64_t step, int64_t patience);
};

struct TrainerParts {
  Context& context;
  Config config;  // as the run directory holds it
  std::shared_ptr<const data::Dataset> dataset;
  std::shared_ptr<models::Forecaster> model;  // on the device, initialised equally on all ranks
  BatchPlan plan;
  PrecisionMode precision = PrecisionMode::kFp32;
  Checkpointer* checkpointer = nullptr;   // null: nothing is saved
  RunDirectory* run_directory = nullptr;  // rank 0 only
  std::string order_log = {};             // file for log.sample_order; empty: off
  // Of a run of as many ranks, to go on with its bits.
  std::optional<std::vector<comm::BucketLayout>> layout = {};
  // Of the run that goes on: the implementation of the model that it had chosen; empty: none.
  std::string implementation = {};
};

// The buckets of the run that wrote a checkpoint, when it had as many ranks; else empty.
std::vector<comm::BucketLayout> stored_layout(const TrainingState& state, int ranks);

// The implementation of the model by which the run that wrote a checkpoint computed; empty: the
// model had no choice.
std::string stored_implementation(const TrainingState& state);

// Trains a model over all ranks from a step to the end of the plan: steps, logs, evaluations, early
// stopping, checkpoints, agreed ends. Every method is collective.
class Trainer {
 public:
  explicit Trainer(TrainerParts parts);
  ~Trainer();

  // Continues from a checkpoint. Throws CheckpointError when it holds another model, ConfigError
  // when the data or the sample order is another one.
  void restore(const TrainingState& state);

  // Where records and progress are told on rank 0; nowhere before. Pointers outlive the trainer.
  void report_to(std::vector<MetricSink*> sinks, Progress* progress);

  // Whether there is nothing left to do.
  bool finished() const;
  int64_t step() const { return step_; }

  // Trains to the end (kDone), to a stop that all ranks agreed on (kStopped, saved), or throws.
  ExitCode run();

  // Whether the step has become a CUDA graph.
  bool runs_as_graph() const { return train_step_->recorded(); }

  // The implementation of the model that was measured as the fastest, or was before; empty where
  // there was none to choose.
  const std::string& implementation() const { return implementation_; }

  // The layout of gradient buckets, for the start-up table.
  const comm::GradientReducer& reducer() const { return *reducer_; }

 private:
  struct LogInterval {
    double loss = 0;
    int64_t good_steps = 0;
    int64_t skipped = 0;
    int64_t steps = 0;
    double exposed_comm_ms = 0;
    std::chrono::steady_clock::time_point begin;  // moved on by evaluations and checkpoints
  };

  void choose_implementation();
  std::unique_ptr<comm::GradientReducer> choose_reducer();
  void check_equal_start();
  void place_data();
  data::LoaderPlan loader_plan(int64_t first_step) const;
  void record_step();
  void tell_memory();
  void take_statistics(bool all);
  void write(const MetricRecord& record);
  void log_interval(const StepStatistics& last);
  [[noreturn]] void end_as_diverged(const StepStatistics& last);
  void settle();
  void cast_votes();
  std::exception_ptr failure() const;
  bool evaluation_due() const;
  bool save_due(const Decision& decision) const;
  bool run_evaluation();
  void save(bool best);
  TrainingState capture() const;
  nlohmann::json scalars() const;

  TrainerParts parts_;
  data::SampleOrder order_;
  std::string implementation_;
  std::unique_ptr<comm::GradientReducer> reducer_;
  std::unique_ptr<Optimizer> optimizer_;
  LossScaler scaler_;
  std::unique_ptr<data::DeviceSeries> series_;  // null where the host gathers the batches
  std::unique_ptr<Fp8Scaling> fp8_;             // null in other precisions
  std::unique_ptr<TrainStep> train_step_;
  bool to_record_ = false;  // the step is to become a graph
  int64_t steps_run_ = 0;   // by this process
  StatisticsPipe pipe_;
  ControlChannel channel_;
  EarlyStop early_stop_;
  LogInterval interval_;
  int64_t step_ = 0;  // completed steps
  int64_t saved_step_ = -1;
  int64_t log_every_;
  bool low_scale_said_ = false;
  std::vector<MetricSink*> sinks_;
  Progress* progress_ = nullptr;
  // Of rank 0: another job holds the run directory, or a record could not be written.
  std::exception_ptr own_failure_;
  bool save_voted_ = false;
  std::chrono::steady_clock::time_point saved_at_;
};

}  // namespace longship::runtime
