// The step on a GPU, eager and recorded (runtime/train_step.h).

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "models/registry.h"
#include "train_step_support.h"

namespace longship::runtime {
namespace {

using testing::HasSubstr;

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
    expect_equal_traces(on_gpu({"optimizer.shard=true"}, graph), 0);
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
         {PrecisionMode::kFp32, PrecisionMode::kTf32, PrecisionMode::kBf16, PrecisionMode::kFp16,
          PrecisionMode::kFp8}) {
      SCOPED_TRACE(name + " in " + to_string(precision));
      const Config config = tests::wave_config(nowhere, overrides);
      if (precision == PrecisionMode::kFp8 && make_model(config)->fp8_layers().empty()) continue;
      expect_equal_traces({.config = config,
                           .loss_scale = precision == PrecisionMode::kFp16 ? 1024.0 : 0.0,
                           .precision = precision,
                           .on_gpu = true,
                           .graph = Case::Graph::kWhole},
                          0);
    }
  }
}

TEST_F(TrainStepGpuTest, StepsWithOwnLstmKernelsAreRecordedAndNearCudnns) {
  const std::vector<std::string> overrides = {"train.epochs=1.9",     "train.clip_norm=0.1",
                                              "comm.wire=fp16",       "model.name=lstm",
                                              "model.hidden_size=64", "model.num_layers=2"};
  std::vector<std::string> own = overrides;
  own.emplace_back("model.kernels=own");
  const tests::TemporaryFolder nowhere;
  for (const PrecisionMode precision : {PrecisionMode::kBf16, PrecisionMode::kFp16}) {
    SCOPED_TRACE(to_string(precision));
    Case of_own{.config = tests::wave_config(nowhere, own),
                .loss_scale = precision == PrecisionMode::kFp16 ? 1024.0 : 0.0,
                .precision = precision,
                .on_gpu = true,
                .graph = Case::Graph::kWhole};
    expect_equal_traces(of_own, 0);
    Case of_cudnn = of_own;
    of_cudnn.config = tests::wave_config(nowhere, overrides);
    const Trace ours = train(of_own).front();
    const Trace theirs = train(of_cudnn).front();
    ASSERT_EQ(ours.steps.size(), theirs.steps.size());
    for (size_t i = 0; i < ours.steps.size(); ++i) {
      EXPECT_NEAR(ours.steps[i].loss / theirs.steps[i].loss, 1, 2e-2) << i;
      EXPECT_NEAR(ours.steps[i].grad_norm / theirs.steps[i].grad_norm, 1, 5e-2) << i;
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

}  // namespace
}  // namespace longship::runtime
