#include "runtime/train_step.h"

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <cstdlib>
#include <limits>
#include <map>
#include <optional>

#include "data/error.h"
#include "models/registry.h"
#include "rank_group.h"
#include "runtime/model_setup.h"
#include "runtime/schedule.h"
#include "runtime/trainer_parts.h"
#include "test_series.h"

namespace longship::runtime {
namespace {

using testing::HasSubstr;

constexpr int64_t kSamples = 200;
constexpr int64_t kWindows = 100;  // of an epoch

// 110 samples in steps of 24 = 6 x 4: the last step holds 14, so that one micro-batch is padded in
// part and one whole.
Config step_config(const std::vector<std::string>& overrides = {}) {
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

Samples make_samples(int64_t targets = 1) {
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

Parameters copy_of(const models::Forecaster& model) {
  Parameters copies;
  for (const at::Tensor& parameter : model.parameters()) {
    copies.push_back(parameter.detach().to(at::kCPU, /*non_blocking=*/false, /*copy=*/true));
  }
  return copies;
}

void expect_close(const Parameters& found, const Parameters& expected, double tolerance) {
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

c10::Device device_of(const Case& setting) {
  return setting.on_gpu ? c10::Device(c10::kCUDA, 0) : c10::Device(c10::kCPU);
}

std::vector<Trace> train(const Case& setting) {
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
    const auto reducer = make_reducer(setting.config.comm, model, tests::member(group, rank));
    const auto optimizer = make_optimizer(setting.config.optimizer, named_parameters(model));
    LossScaler scaler(setting.loss_scale > 0 ? PrecisionMode::kFp16 : PrecisionMode::kFp32,
                      setting.loss_scale, 2000, device);
    TrainStep train_step({model, *reducer, *optimizer, scaler, device}, setting.config, plan,
                         setting.precision, FaultInjection::from_environment(rank));
    StatisticsPipe pipe(device);
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

struct Reference {
  Parameters parameters;
  std::vector<double> losses;
  std::vector<double> norms;
};

// The same training by LibTorch's own parts, one batch a step.
Reference plain_training(const Config& config) {
  const Samples samples = make_samples();
  const BatchPlan plan = make_batch_plan(config.train, 4, kWindows, 0, 1);
  const auto model = make_model(config);
  std::unique_ptr<torch::optim::Optimizer> optimizer;
  if (config.optimizer.name == "sgd") {
    optimizer = std::make_unique<torch::optim::SGD>(
        model->parameters(), torch::optim::SGDOptions(config.optimizer.lr)
                                 .momentum(config.optimizer.momentum)
                                 .weight_decay(config.optimizer.weight_decay));
  } else {
    optimizer = std::make_unique<torch::optim::AdamW>(
        model->parameters(), torch::optim::AdamWOptions(config.optimizer.lr)
                                 .betas({config.optimizer.beta1, config.optimizer.beta2})
                                 .eps(config.optimizer.eps)
                                 .weight_decay(config.optimizer.weight_decay));
  }
  Reference reference;
  for (int64_t step = 0; step < plan.total_steps; ++step) {
    const int64_t first = step * plan.batch_size;
    models::Inputs inputs;
    inputs.past = samples.past.narrow(0, first, plan.samples(step));
    const at::Tensor target = samples.target.narrow(0, first, plan.samples(step));
    optimizer->zero_grad();
    const at::Tensor loss = (model->forward(inputs).values.squeeze(-1) - target).square().mean();
    loss.backward();
    reference.losses.push_back(loss.item<double>());
    reference.norms.push_back(
        torch::nn::utils::clip_grad_norm_(model->parameters(), config.train.clip_norm));
    optimizer->param_groups()[0].options().set_lr(
        learning_rate(config.optimizer, config.schedule, step, plan.total_steps));
    optimizer->step();
  }
  reference.parameters = copy_of(*model);
  return reference;
}

class TrainStepTest : public testing::Test {
 protected:
  void TearDown() override { unsetenv("LONGSHIP_FAULT"); }
};

void expect_plain_training(const Config& config, double tolerance) {
  const Reference reference = plain_training(config);
  for (const int ranks : {1, 2, 3, 4}) {
    const std::vector<Trace> traces = train({.config = config, .ranks = ranks});
    for (const Trace& trace : traces) {
      EXPECT_EQ(trace.applied, 5);
      expect_close(trace.parameters.back(), reference.parameters, tolerance);
    }
    for (size_t step = 0; step < reference.losses.size(); ++step) {
      double loss = 0;
      for (const Trace& trace : traces) loss += trace.steps[step].loss;
      EXPECT_NEAR(loss, reference.losses[step], 1e-5 * reference.losses[step]);
      EXPECT_NEAR(traces[0].steps[step].grad_norm, reference.norms[step],
                  1e-4 * reference.norms[step]);
    }
  }
}

TEST_F(TrainStepTest, AnyNumberOfRanksTrainsAsOneProcessOverTheWholeBatchWithAdamW) {
  expect_plain_training(step_config(), 2e-5);
}

TEST_F(TrainStepTest, AnyNumberOfRanksTrainsAsOneProcessOverTheWholeBatchWithSgd) {
  expect_plain_training(step_config({"optimizer.name=sgd"}), 1e-6);
}

TEST_F(TrainStepTest, ClippingIsActiveInTheseTests) {
  for (const double norm : plain_training(step_config()).norms) EXPECT_GT(norm, 0.1);
}

TEST_F(TrainStepTest, RanksAgreeWithDropout) {
  const Config config = step_config({"model.dropout=0.4"});
  const Parameters alone = train({.config = config}).front().parameters.back();
  for (const int ranks : {2, 3}) {
    for (const Trace& trace : train({.config = config, .ranks = ranks})) {
      expect_close(trace.parameters.back(), alone, 2e-5);
    }
  }
  const Parameters without = train({.config = step_config()}).front().parameters.back();
  EXPECT_FALSE(at::allclose(without[0], alone[0], 1e-3, 1e-4));
}

TEST_F(TrainStepTest, ALossScaleChangesNothingBelowOverflow) {
  const Config config = step_config();
  const Parameters expected = train({.config = config}).front().parameters.back();
  const Trace trace = train({.config = config, .ranks = 2, .loss_scale = 1024}).front();
  EXPECT_EQ(trace.steps[0].loss_scale, 1024);
  expect_close(trace.parameters.back(), expected, 2e-5);
}

TEST_F(TrainStepTest, AnOverflowOnOneRankIsSkippedByAll) {
  setenv("LONGSHIP_FAULT", "overflow:rank=1,step=3", 1);
  const auto traces = train({.config = step_config(), .ranks = 3, .loss_scale = 1024});
  for (const Trace& trace : traces) {
    EXPECT_EQ(trace.failure, "");
    for (size_t i = 0; i < 5; ++i) {
      EXPECT_EQ(trace.steps[i].skipped, i == 2) << "step " << i + 1;
      EXPECT_EQ(trace.steps[i].loss_scale, i <= 2 ? 1024 : 512) << "step " << i + 1;
    }
    EXPECT_EQ(trace.steps[2].consecutive_skips, 1);
    EXPECT_EQ(trace.steps[3].consecutive_skips, 0);
    EXPECT_EQ(trace.steps[2].applied, 2);
    EXPECT_EQ(trace.steps[3].applied, 3);
    // The schedule stands still over the skipped step.
    EXPECT_EQ(trace.steps[3].lr, trace.steps[2].lr);
    EXPECT_NE(trace.steps[4].lr, trace.steps[3].lr);
    EXPECT_EQ(trace.applied, 4);
    EXPECT_EQ(trace.scale, 512);
    expect_close(trace.parameters[2], trace.parameters[1], 0);
    expect_close(trace.parameters.back(), traces[0].parameters.back(), 0);
  }
  EXPECT_FALSE(at::equal(traces[0].parameters[3][0], traces[0].parameters[2][0]));
}

TEST_F(TrainStepTest, AnOverflowIsSkippedWithoutALossScaleToo) {
  setenv("LONGSHIP_FAULT", "overflow:rank=0,step=1", 1);
  for (const Trace& trace : train({.config = step_config(), .ranks = 2})) {
    EXPECT_TRUE(trace.steps[0].skipped);
    EXPECT_FALSE(trace.steps[1].skipped);
    EXPECT_EQ(trace.applied, 4);
    EXPECT_EQ(trace.scale, 1);
    for (const at::Tensor& parameter : trace.parameters.back()) {
      EXPECT_TRUE(parameter.isfinite().all().item<bool>());
    }
  }
}

TEST_F(TrainStepTest, ARankThatFailsPoisonsTheStepsAndHangsNobody) {
  const auto traces =
      train({.config = step_config(), .ranks = 3, .failing_rank = 1, .fails_at = 2});
  for (size_t rank = 0; rank < traces.size(); ++rank) {
    const Trace& trace = traces[rank];
    EXPECT_EQ(trace.failure, rank == 1 ? "the disk is gone" : "");
    EXPECT_FALSE(trace.steps[1].skipped);
    for (size_t step = 2; step < 5; ++step) {
      EXPECT_TRUE(trace.steps[step].skipped);
      EXPECT_EQ(trace.steps[step].consecutive_skips, static_cast<int64_t>(step) - 1);
    }
    EXPECT_EQ(trace.applied, 2);
    expect_close(trace.parameters.back(), trace.parameters[1], 0);
  }
}

TEST_F(TrainStepTest, AFailureBetweenMicroStepsIsSkippedByAllToo) {
  setenv("LONGSHIP_FAULT", "throw:rank=0,step=2", 1);
  const auto traces = train({.config = step_config(), .ranks = 2});
  EXPECT_THAT(traces[0].failure, HasSubstr("step 2"));
  for (const Trace& trace : traces) {
    EXPECT_EQ(trace.applied, 1);
    EXPECT_TRUE(trace.steps[1].skipped);
  }
}

// On a GPU, where recorded steps must do what eager ones do, bit by bit in FP32.
class TrainStepGpuTest : public TrainStepTest {
 protected:
  void SetUp() override {
    if (!at::cuda::is_available()) GTEST_SKIP() << "there is no GPU";
    deterministic_ = at::globalContext().deterministicAlgorithms();
    at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
  }
  void TearDown() override {
    TrainStepTest::TearDown();
    at::globalContext().setDeterministicAlgorithms(deterministic_, true);
  }
  // Eight steps, of which five are replayed; the last is padded.
  static Case on_gpu(const std::vector<std::string>& overrides, Case::Graph graph,
                     PrecisionMode precision = PrecisionMode::kFp32, double loss_scale = 0) {
    std::vector<std::string> all = {"train.epochs=1.9", "comm.wire=fp16"};
    all.insert(all.end(), overrides.begin(), overrides.end());
    return {.config = step_config(all),
            .loss_scale = loss_scale,
            .precision = precision,
            .on_gpu = true,
            .graph = graph};
  }
  static void expect_equal_traces(const Case& recorded_case, double tolerance) {
    Case eager_case = recorded_case;
    eager_case.graph = Case::Graph::kNone;
    const Trace eager = train(eager_case).front();
    const Trace recorded = train(recorded_case).front();
    ASSERT_EQ(recorded.not_recorded, "");
    ASSERT_EQ(recorded.steps.size(), 8);
    for (size_t step = 0; step < recorded.steps.size(); ++step) {
      EXPECT_NEAR(recorded.steps[step].loss, eager.steps[step].loss, tolerance) << "step " << step;
      EXPECT_EQ(recorded.steps[step].lr, eager.steps[step].lr);
      EXPECT_EQ(recorded.steps[step].skipped, eager.steps[step].skipped);
      EXPECT_EQ(recorded.steps[step].loss_scale, eager.steps[step].loss_scale);
      expect_close(recorded.parameters[step], eager.parameters[step], tolerance);
    }
    EXPECT_EQ(recorded.applied, eager.applied);
  }

 private:
  bool deterministic_ = false;
};

TEST_F(TrainStepGpuTest, TrainsAsOnTheCpu) {
  const Case gpu = on_gpu({}, Case::Graph::kWhole);
  const Trace found = train(gpu).front();
  const Trace expected = train({.config = gpu.config}).front();
  expect_close(found.parameters.back(), expected.parameters.back(), 1e-4);
}

TEST_F(TrainStepGpuTest, ARecordedStepIsTheEagerOne) {
  for (const Case::Graph graph : {Case::Graph::kWhole, Case::Graph::kSplit}) {
    // Six micro-steps, and one.
    expect_equal_traces(on_gpu({}, graph), 0);
    expect_equal_traces(on_gpu({"train.batch_size=4", "train.epochs=0.3"}, graph), 0);
    expect_equal_traces(on_gpu({"model.dropout=0.4"}, graph), 0);
    expect_equal_traces(on_gpu({"optimizer.name=sgd", "train.loss=huber"}, graph), 0);
  }
}

// A model that falls back to eager steps in some mode fails here.
TEST_F(TrainStepGpuTest, EveryModelIsRecordedInEveryPrecision) {
  // Keys that a model needs to suit windows of 6 rows of 2 columns, and what makes it smaller.
  const std::map<std::string, std::vector<std::string>> needs = {
      {"lstm", {"model.hidden_size=8", "model.num_layers=2", "model.dropout=0.2"}},
      {"patch_transformer",
       {"data.targets=[a, b]", "model.patch=2", "model.stride=2", "model.width=16", "model.heads=2",
        "model.feed_forward=16"}}};
  const tests::TemporaryFolder nowhere;
  for (const auto& [name, spec] : models::registered_models()) {
    std::vector<std::string> overrides = {"train.epochs=1.9", "train.clip_norm=0.1",
                                          "comm.wire=fp16", "model.name=" + name};
    if (const auto found = needs.find(name); found != needs.end()) {
      overrides.insert(overrides.end(), found->second.begin(), found->second.end());
    }
    for (const PrecisionMode precision :
         {PrecisionMode::kFp32, PrecisionMode::kTf32, PrecisionMode::kBf16, PrecisionMode::kFp16}) {
      SCOPED_TRACE(name + " in " + to_string(precision));
      expect_equal_traces({.config = tests::wave_config(nowhere, overrides),
                           .loss_scale = precision == PrecisionMode::kFp16 ? 1024.0 : 0.0,
                           .precision = precision,
                           .on_gpu = true,
                           .graph = Case::Graph::kWhole},
                          0);
    }
  }
}

TEST_F(TrainStepGpuTest, EveryLossIsRecorded) {
  for (const std::string loss : {"mse", "mae", "huber", "quantile"}) {
    std::vector<std::string> overrides = {"train.loss=" + loss};
    if (loss == "quantile") overrides.push_back("train.quantiles=[0.1, 0.5, 0.9]");
    expect_equal_traces(on_gpu(overrides, Case::Graph::kWhole), 0);
  }
}

TEST_F(TrainStepGpuTest, AModelThatCannotBeRecordedTrainsEagerlyAndSaysWhy) {
  // Six micro-steps, and one.
  for (const std::vector<std::string>& sizes : std::vector<std::vector<std::string>>{
           {"train.batch_size=24"}, {"train.batch_size=4", "train.epochs=0.3"}}) {
    Case restless = on_gpu(sizes, Case::Graph::kWhole);
    restless.restless = true;
    const Trace tried = train(restless).front();
    EXPECT_THAT(tried.not_recorded, HasSubstr("captur"));
    EXPECT_EQ(tried.failure, "");
    restless.graph = Case::Graph::kNone;
    const Trace eager = train(restless).front();
    EXPECT_EQ(tried.applied, eager.applied);
    expect_close(tried.parameters.back(), eager.parameters.back(), 0);
  }
}

TEST_F(TrainStepGpuTest, AnOverflowAmongReplaysIsSkipped) {
  setenv("LONGSHIP_FAULT", "overflow:rank=0,step=6", 1);
  const Trace trace = train(on_gpu({}, Case::Graph::kWhole, PrecisionMode::kFp16, 1024)).front();
  EXPECT_TRUE(trace.steps[5].skipped);
  EXPECT_EQ(trace.steps[6].loss_scale, 512);
  EXPECT_EQ(trace.steps[6].lr, trace.steps[5].lr);
  EXPECT_FALSE(trace.steps[6].skipped);
  EXPECT_EQ(trace.applied, 7);
  expect_close(trace.parameters[5], trace.parameters[4], 0);
}

TEST_F(TrainStepGpuTest, AFailureAmongReplaysEndsAsAnyOther) {
  Case failing = on_gpu({}, Case::Graph::kWhole);
  failing.failing_rank = 0;
  failing.fails_at = 5;
  const Trace trace = train(failing).front();
  EXPECT_EQ(trace.failure, "the disk is gone");
  EXPECT_EQ(trace.applied, 5);
  expect_close(trace.parameters.back(), trace.parameters[4], 0);
}

// One rank's step by itself, for diagnose().
class DiagnoseTest : public testing::Test {
 protected:
  std::string diagnose(double loss_scale, float value) {
    const Config config = step_config({"train.loss=mse"});
    const auto model = make_model(config);
    const auto alone = comm::make_local_communicator();
    const BatchPlan plan = make_batch_plan(config.train, 4, kWindows, 0, 1);
    const auto reducer = make_reducer(config.comm, *model, *alone);
    const auto optimizer = make_optimizer(config.optimizer, named_parameters(*model));
    LossScaler scaler(PrecisionMode::kFp16, loss_scale, 2000, c10::kCPU);
    TrainStep step({*model, *reducer, *optimizer, scaler, c10::kCPU}, config, plan,
                   PrecisionMode::kFp32, {});
    const Samples samples = make_samples();
    SampleSource source(samples, plan, -1);
    source.next();
    data::MicroBatch batch = source.next();
    batch.batch.target[0][0][0] = value;
    return step.diagnose(batch);
  }
};

TEST_F(DiagnoseTest, SaysNothingOfAGoodMicroBatch) {
  EXPECT_EQ(diagnose(1, 0), "");
}

TEST_F(DiagnoseTest, NamesTheLoss) {
  EXPECT_EQ(diagnose(1, std::numeric_limits<float>::infinity()),
            "the loss of micro-batch 1 is infinite");
  EXPECT_EQ(diagnose(1, std::numeric_limits<float>::quiet_NaN()),
            "the loss of micro-batch 1 is not a number");
}

TEST_F(DiagnoseTest, NamesAParameterWhoseGradientIsNotFinite) {
  // The loss is finite, its multiple is not.
  EXPECT_THAT(diagnose(1e38, 1000),
              testing::MatchesRegex("the gradient of (lstm|head)\\..* of micro-batch 1 is not "
                                    "finite"));
}

}  // namespace
}  // namespace longship::runtime
