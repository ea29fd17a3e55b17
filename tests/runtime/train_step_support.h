#pragma once

#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "data/error.h"
#include "rank_group.h"
#include "runtime/model_setup.h"
#include "runtime/train_step.h"
#include "runtime/trainer_parts.h"
#include "test_series.h"

// Trainings of a few steps by TrainStep alone, on made-up samples, by threads that play ranks.
namespace longship::runtime {

constexpr int64_t kSamples = 200;
constexpr int64_t kWindows = 100;  // of an epoch

// 110 samples in steps of 24 = 6 x 4: the last step holds 14, so that one micro-batch is padded in
// part and one whole.
inline Config step_config(const std::vector<std::string>& overrides = {}) {
  const tests::TemporaryFolder nowhere;
  std::vector<std::string> all = {
      "train.epochs=1.1",  "train.clip_norm=0.1", "schedule.name=cosine", "schedule.warmup_steps=2",
      "optimizer.lr=0.02", "model.name=lstm",     "model.hidden_size=8",  "model.num_layers=2"};
  all.insert(all.end(), overrides.begin(), overrides.end());
  return tests::wave_config(nowhere, all);
}

struct Samples {
  at::Tensor past;    // (samples, window, inputs)
  at::Tensor target;  // (samples, horizon, targets)
};

inline Samples make_samples(int64_t targets = 1) {
  at::manual_seed(21);
  return {at::randn({kSamples, 6, 2}), at::randn({kSamples, 2, targets})};
}

// Sample p stands at position p of the training stream. `fails_at` is the step in which it throws.
class SampleSource : public data::BatchSource {
 public:
  SampleSource(const Samples& samples, const BatchPlan& plan, int64_t fails_at)
      : samples_(samples), plan_(plan), fails_at_(fails_at), next_(plan.first_micro_batch) {}

  data::MicroBatch next() override {
    if (step_ == fails_at_) throw data::DataError("the disk is gone");
    data::MicroBatch batch;
    batch.step = step_;
    batch.micro_batch = next_;
    batch.samples = plan_.samples(step_);
    const int64_t first = step_ * plan_.batch_size + next_ * plan_.micro_batch_size;
    const at::Tensor positions = at::arange(first, first + plan_.micro_batch_size, at::kLong);
    batch.batch.past = samples_.past.index_select(0, positions);
    batch.batch.target = samples_.target.index_select(0, positions);
    batch.weight = (positions < plan_.end_position).to(at::kFloat);
    if (++next_ == plan_.end_micro_batch) {
      next_ = plan_.first_micro_batch;
      ++step_;
    }
    return batch;
  }

 private:
  const Samples& samples_;
  BatchPlan plan_;
  int64_t fails_at_;
  int64_t step_ = 0;
  int64_t next_;
};

using Parameters = std::vector<at::Tensor>;

inline Parameters copy_of(const models::Forecaster& model) {
  Parameters copies;
  for (const at::Tensor& parameter : model.parameters()) {
    copies.push_back(parameter.detach().to(at::kCPU, /*non_blocking=*/false, /*copy=*/true));
  }
  return copies;
}

inline void expect_close(const Parameters& found, const Parameters& expected, double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_LE((found[i] - expected[i]).abs().max().item<double>(), tolerance) << "parameter " << i;
  }
}

// What one rank saw.
struct Trace {
  std::vector<Parameters> parameters;  // after each step
  std::vector<StepStatistics> steps;
  std::string failure;
  std::string not_recorded;
  int64_t applied = 0;
  double scale = 1;
};

// Looks at a number on the host and takes another way by it, which no recording allows, and draws
// from LibTorch's own generator.
class RestlessModel : public models::Forecaster {
 public:
  RestlessModel() { linear_ = register_module("linear", torch::nn::Linear(12, 2)); }
  models::Forecast forward(const models::Inputs& inputs) override {
    const at::Tensor past = at::dropout(inputs.past.flatten(1), 0.1, is_training());
    const bool positive = past.mean().item<float>() > 0;
    return {linear_->forward(positive ? past : 0.5 * past).view({-1, 2, 1, 1})};
  }

 private:
  torch::nn::Linear linear_{nullptr};
};

struct Case {
  Config config;
  int ranks = 1;
  double loss_scale = 0;  // 0: none, as in fp32
  int failing_rank = -1;
  int64_t fails_at = -1;
  PrecisionMode precision = PrecisionMode::kFp32;
  bool on_gpu = false;
  bool restless = false;  // train RestlessModel
  // Record the step after the eager ones: in one piece, or split around the communication.
  enum class Graph { kNone, kWhole, kSplit } graph = Graph::kNone;
};

inline c10::Device device_of(const Case& setting) {
  return setting.on_gpu ? c10::Device(c10::kCUDA, 0) : c10::Device(c10::kCPU);
}

inline std::vector<Trace> train(const Case& setting) {
  const Samples samples = make_samples(static_cast<int64_t>(setting.config.data.targets.size()));
  const tests::Group group = comm::make_local_group(setting.ranks);
  const auto size = static_cast<size_t>(setting.ranks);
  std::vector<std::shared_ptr<models::Forecaster>> models;  // made here: one generator for all
  for (size_t r = 0; r < size; ++r) {
    if (setting.restless) at::manual_seed(8);
    models.push_back(setting.restless ? std::make_shared<RestlessModel>()
                                      : make_model(setting.config));
  }
  std::vector<Trace> traces(size);
  tests::play_ranks(setting.ranks, [&](int rank) {
    Trace& trace = traces[static_cast<size_t>(rank)];
    models::Forecaster& model = *models[static_cast<size_t>(rank)];
    const c10::Device device = device_of(setting);
    std::optional<c10::cuda::CUDAStreamGuard> stream;
    if (setting.on_gpu) {
      stream.emplace(c10::cuda::getStreamFromPool());
      apply_precision(setting.precision, device);
      model.to(device);
      model.on_device();
    }
    const BatchPlan plan = make_batch_plan(setting.config.train, 4, kWindows, rank, setting.ranks);
    const auto reducer = make_reducer(setting.config, model, tests::member(group, rank));
    const auto optimizer = make_optimizer(setting.config.optimizer, updated_parts(model, *reducer));
    LossScaler scaler(setting.loss_scale > 0 ? PrecisionMode::kFp16 : PrecisionMode::kFp32,
                      setting.loss_scale, 2000, device);
    std::unique_ptr<Fp8Scaling> fp8;
    if (setting.precision == PrecisionMode::kFp8) {
      fp8 = std::make_unique<Fp8Scaling>(model, tests::member(group, rank), device);
    }
    TrainStep train_step({model, *reducer, *optimizer, scaler, device, nullptr, fp8.get()},
                         setting.config, plan, setting.precision,
                         FaultInjection::from_environment(rank));
    StatisticsPipe pipe(device, std::chrono::seconds(60));
    SampleSource source(samples, plan, rank == setting.failing_rank ? setting.fails_at : -1);
    for (int64_t step = 0; step < plan.total_steps; ++step) {
      if (setting.graph != Case::Graph::kNone && step == TrainStep::kEagerSteps) {
        trace.not_recorded = train_step.record(setting.graph == Case::Graph::kWhole);
      }
      train_step.run(step, source, pipe);
      trace.parameters.push_back(copy_of(model));
    }
    while (const auto statistics = pipe.pop(true)) trace.steps.push_back(*statistics);
    if (train_step.failure()) {
      try {
        std::rethrow_exception(train_step.failure());
      } catch (const std::exception& error) {
        trace.failure = error.what();
      }
    }
    trace.applied = train_step.applied();
    trace.scale = scaler.state().scale;
  });
  return traces;
}

class TrainStepTest : public testing::Test {
 protected:
  void TearDown() override { unsetenv("LONGSHIP_FAULT"); }
};

}  // namespace longship::runtime
