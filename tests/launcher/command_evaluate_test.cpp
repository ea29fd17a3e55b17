#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "../runtime/test_series.h"
#include "launcher/command.h"
#include "runtime/error.h"
#include "single_process.h"

namespace longship::launcher {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// `longship evaluate` as one process on a run of `longship train`.
class EvaluateCommand : public SingleProcess {
 protected:
  void SetUp() override {
    SingleProcess::SetUp();
    write_waves(folder_, {200});
  }

  // A run of a few steps that forecasts a and b.
  std::string trained(const std::vector<std::string>& more = {}) {
    std::ofstream(folder_ / "run.yaml")
        << "run: {name: one, directory: " << folder_ / "runs"
        << "}\n"
        << "data: {path: series.h5, inputs: [a, b], targets: [a, b], window: 24, horizon: 2}\n"
        << "model: {name: linear}\n"
        << "train: {steps: 4, batch_size: 24, micro_batch_size: 4}\n";
    std::vector<std::string> words = {folder_ / "run.yaml"};
    words.insert(words.end(), more.begin(), more.end());
    EXPECT_EQ(call(train_command(), words), 0) << err_;
    return folder_ / "runs/one";
  }

  int call(const Command& command, const std::vector<std::string>& words) {
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    int code = -1;
    try {
      code = command.run(words);
    } catch (const std::exception& error) {
      code = static_cast<int>(runtime::exit_code_of(error));
      std::cerr << error.what();
    }
    std::cout.flush();
    std::fflush(stdout);
    out_ = testing::internal::GetCapturedStdout();
    err_ = testing::internal::GetCapturedStderr();
    return code;
  }
  int evaluate(const std::vector<std::string>& words) { return call(evaluate_command(), words); }

  tests::TemporaryFolder folder_;
  std::string out_;
  std::string err_;
};

TEST_F(EvaluateCommand, RefusesWrongCommandLines) {
  EXPECT_EQ(evaluate({}), 2);
  EXPECT_THAT(err_, HasSubstr("evaluate takes one run or checkpoint"));
  EXPECT_EQ(evaluate({"run", "--split", "tset"}), 2);
  EXPECT_THAT(err_, HasSubstr("--split is train, validation, test or all, not 'tset'"));
  EXPECT_EQ(evaluate({"run", "--csv"}), 2);
  EXPECT_EQ(evaluate({"--help"}), 0);
  EXPECT_THAT(out_, HasSubstr("--split"));
}

TEST_F(EvaluateCommand, APathWithoutACheckpointIsACheckpointError) {
  EXPECT_EQ(evaluate({folder_.path().string()}), 4);
  EXPECT_THAT(err_, AllOf(HasSubstr("longship: error: "), HasSubstr(folder_.path().string())));
}

TEST_F(EvaluateCommand, PrintsOneJsonObject) {
  const std::string run = trained();
  ASSERT_EQ(evaluate({run, "--json"}), 0) << err_;
  const nlohmann::json result = nlohmann::json::parse(out_);
  EXPECT_EQ(result.at("split"), "test");
  EXPECT_EQ(result.at("windows"), 39);  // 40 rows, horizon 2
  EXPECT_EQ(result.at("values"), 39 * 2 * 2);
  EXPECT_EQ(result.at("per_step").size(), 2u);
  EXPECT_EQ(result.at("per_target").size(), 2u);
  const double mse = result.at("normalized").at("mse").get<double>();
  double mean = 0;
  for (const auto& step : result.at("per_step")) {
    mean += step.at("normalized").at("mse").get<double>() / 2;
  }
  EXPECT_NEAR(mean, mse, 1e-12);
  mean = 0;
  for (const auto& target : result.at("per_target")) {
    mean += target.at("normalized").at("mse").get<double>() / 2;
  }
  EXPECT_NEAR(mean, mse, 1e-12);
  const auto& original = result.at("original");
  EXPECT_NEAR(original.at("rmse").get<double>(), std::sqrt(original.at("mse").get<double>()),
              1e-12);
  const auto& baselines = result.at("baselines");
  EXPECT_GT(baselines.at("naive").at("original").at("rmse").get<double>(), 0);
  EXPECT_EQ(baselines.at("seasonal_naive").at("season"), 24);
}

TEST_F(EvaluateCommand, APartWithoutAnyObservedTargetIsAnErrorThatSaysSo) {
  data::SeriesTable table = tests::wave_table({200});
  table.values.narrow(0, 160, 40).fill_(std::nanf(""));  // the test part
  data::write_series_file(folder_ / "series.h5", table, true);
  const std::string run = trained({"--set", "data.missing=forward_fill"});
  EXPECT_EQ(evaluate({run}), 3);
  EXPECT_THAT(err_,
              AllOf(HasSubstr("every target value in the windows of the test part is missing"),
                    HasSubstr("another --split")));
  EXPECT_EQ(out_, "");
  EXPECT_EQ(evaluate({run, "--split", "validation"}), 0) << err_;
}

TEST_F(EvaluateCommand, PrintsATableAndOtherParts) {
  const std::string run = trained();
  ASSERT_EQ(evaluate({run, "--split", "validation"}), 0) << err_;
  EXPECT_THAT(out_, AllOf(HasSubstr("validation part: 19 windows"), HasSubstr("last value"),
                          HasSubstr("value 24 rows ago"), HasSubstr("model, by target")));
}

TEST_F(EvaluateCommand, EvaluatesAnotherFileWithTheTrainedNormaliser) {
  const std::string run = trained();
  const std::string other = folder_ / "other.h5";
  // Ten times the values: a normaliser fitted anew would hide it.
  data::SeriesTable table = tests::wave_table({60}, 5);
  table.values.mul_(10);
  data::write_series_file(other, table, true);
  ASSERT_EQ(evaluate({run, "--data", other, "--json"}), 0) << err_;
  const nlohmann::json result = nlohmann::json::parse(out_);
  EXPECT_EQ(result.at("split"), "all");
  EXPECT_EQ(result.at("windows"), 60 - 26 + 1);
  EXPECT_GT(result.at("baselines").at("naive").at("normalized").at("mse").get<double>(), 5);

  data::write_series_file(other, tests::wave_table({20}), true);
  EXPECT_EQ(evaluate({run, "--data", other}), 3);
  EXPECT_THAT(err_, HasSubstr("26 rows"));
}

}  // namespace
}  // namespace longship::launcher
