#include "runtime/train_step.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <cstdlib>
#include <limits>

#include "runtime/schedule.h"
#include "train_step_support.h"

namespace longship::runtime {
namespace {

using testing::HasSubstr;

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

TEST_F(TrainStepTest, RanksThatShareTheOptimizerTrainAsOneProcessDoes) {
  expect_plain_training(step_config({"optimizer.shard=true"}), 2e-5);
  expect_plain_training(step_config({"optimizer.name=sgd", "optimizer.shard=true"}), 1e-6);
}

TEST_F(TrainStepTest, AnOverflowOnOneRankIsSkippedByAllThatShareTheOptimizer) {
  setenv("LONGSHIP_FAULT", "overflow:rank=1,step=3", 1);
  const auto traces = train({.config = step_config({"optimizer.shard=true", "comm.wire=fp16"}),
                             .ranks = 3,
                             .loss_scale = 1024});
  for (const Trace& trace : traces) {
    EXPECT_TRUE(trace.steps[2].skipped);
    EXPECT_EQ(trace.applied, 4);
    EXPECT_EQ(trace.scale, 512);
    expect_close(trace.parameters[2], trace.parameters[1], 0);
    expect_close(trace.parameters.back(), traces[0].parameters.back(), 0);
  }
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

// One rank's step by itself, for diagnose().
class DiagnoseTest : public testing::Test {
 protected:
  std::string diagnose(double loss_scale, float value) {
    const Config config = step_config({"train.loss=mse"});
    const auto model = make_model(config);
    const auto alone = comm::make_local_communicator();
    const BatchPlan plan = make_batch_plan(config.train, 4, kWindows, 0, 1);
    const auto reducer = make_reducer(config, *model, *alone);
    const auto optimizer = make_optimizer(config.optimizer, updated_parts(*model, *reducer));
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
