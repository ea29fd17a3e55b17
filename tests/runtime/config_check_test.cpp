#include "runtime/config_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config_support.h"

namespace longship::runtime {
namespace {

using namespace longship::tests;
using testing::HasSubstr;

TEST(CheckConfig, NamesBothNumbersAndTheNearestDivisors) {
  EXPECT_EQ(error_with("train:\n  batch_size: 1000\n  micro_batch_size: 96\n"),
            "run.yaml:9: train.micro_batch_size: 96 does not divide train.batch_size, 1000; the "
            "nearest that do are 50 and 100");
  EXPECT_THAT(error_with("train: {batch_size: 8, micro_batch_size: 16}\n"),
              HasSubstr("16 is larger than train.batch_size, 8"));
  EXPECT_EQ(error_with("train: {batch_size: 1000, micro_batch_size: 125}\n"), "no error");
}

TEST(CheckConfig, WantsColumnsOnce) {
  EXPECT_THAT(error_with("", {"data.inputs=[]"}), HasSubstr("data.inputs: names no column"));
  EXPECT_THAT(error_with("", {"data.targets=[]"}), HasSubstr("data.targets: names no column"));
  EXPECT_THAT(error_with("", {"data.inputs=[a, b, a]"}), HasSubstr("names the column 'a' twice"));
  EXPECT_THAT(error_with("", {"data.path=[]"}), HasSubstr("names no file"));
}

TEST(CheckConfig, WantsSomethingToTrain) {
  EXPECT_THAT(error_with("train: {epochs: 0}\n"), HasSubstr("nothing to train"));
}

TEST(CheckConfig, RefusesKeysWithoutEffect) {
  EXPECT_EQ(error_with("optimizer: {momentum: 0.5}\n"),
            "run.yaml:7: optimizer.momentum: has no effect while optimizer.name is adamw (only "
            "with sgd): remove it");
  EXPECT_THAT(error_with("train: {quantiles: [0.5]}\n"), HasSubstr("only with quantile"));
  EXPECT_THAT(error_with("train: {huber_delta: 2}\n"), HasSubstr("only with huber"));
  EXPECT_THAT(error_with("schedule: {min_lr: 1e-5}\n"), HasSubstr("only with cosine or linear"));
  EXPECT_THAT(error_with("precision: {mode: bf16, init_scale: 2}\n"), HasSubstr("only with"));
  EXPECT_EQ(error_with("optimizer: {momentum: 0.9}\n"), "no error");
}

TEST(CheckConfig, WantsAscendingQuantiles) {
  EXPECT_THAT(error_with("train: {loss: quantile}\n"), HasSubstr("train.quantiles: is missing"));
  EXPECT_THAT(error_with("train: {loss: quantile, quantiles: [0.5, 0.5]}\n"),
              HasSubstr("0.5 does not exceed 0.5"));
  EXPECT_THAT(error_with("train: {loss: quantile, quantiles: [0.5, 1]}\n"),
              HasSubstr("must be less than 1"));
}

TEST(CheckConfig, WantsASchedulesKeys) {
  EXPECT_THAT(error_with("schedule: {name: step}\n"), HasSubstr("schedule.step_size: is missing"));
  EXPECT_THAT(error_with("schedule: {name: cosine, min_lr: 1}\n"),
              HasSubstr("1 is above optimizer.lr, 0.001"));
  EXPECT_THAT(error_with("schedule: {warmup_steps: 200}\ntrain: {steps: 100}\n"),
              HasSubstr("200 is more than all of train.steps, 100"));
}

TEST(CheckConfig, WantsEvaluationsForPatience) {
  EXPECT_THAT(error_with("eval: {every_epochs: 0, patience: 3}\n"),
              HasSubstr("eval.patience: needs evaluations"));
}

TEST(CheckConfig, WantsANameThatIsAFolders) {
  for (const char* name : {"a/b", "..", "."}) {
    EXPECT_THAT(error_with("", {std::string("run.name=") + name}), HasSubstr("run.directory"))
        << name;
  }
  EXPECT_THAT(error_with("", {"run.name=\"a\\nb\""}), HasSubstr("control character"));
  EXPECT_THAT(error_with("", {"run.name=" + std::string(201, 'x')}), HasSubstr("200 bytes"));
}

}  // namespace
}  // namespace longship::runtime
