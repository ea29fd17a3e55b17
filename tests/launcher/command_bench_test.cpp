#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "launcher/bench.h"
#include "launcher/command.h"
#include "runtime/error.h"
#include "single_process.h"

namespace longship::launcher {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class BenchTest : public SingleProcess {
 protected:
  // The object that a benchmark prints; the last line of its output.
  static json run(const std::vector<std::string>& words) {
    testing::internal::CaptureStdout();
    const int code = bench_command().run(words);
    const std::string output = testing::internal::GetCapturedStdout();
    EXPECT_EQ(code, 0);
    return json::parse(output);
  }
  static std::string usage_error(const std::vector<std::string>& words) {
    try {
      bench_command().run(words);
    } catch (const runtime::UsageError& error) {
      return error.what();
    }
    return "(nothing was thrown)";
  }
};

TEST_F(BenchTest, RefusesWhatItDoesNotKnow) {
  EXPECT_THAT(usage_error({}), HasSubstr("needs a kind"));
  EXPECT_THAT(usage_error({"sleep"}), HasSubstr("no kind 'sleep'"));
  EXPECT_THAT(usage_error({"train", "--preset", "gpt"}),
              HasSubstr("--preset is patch-transformer or seed-lstm"));
  EXPECT_THAT(usage_error({"train", "--steps", "10"}),
              HasSubstr("--steps is at least 75 and --warmup at least 25"));
  EXPECT_THAT(usage_error({"train", "run.yaml", "--preset", "seed-lstm"}),
              HasSubstr("a run file or --preset, not both"));
  EXPECT_THAT(usage_error({"infer", "--set", "precision.mode=fp16"}),
              HasSubstr("measures each precision"));
  EXPECT_THAT(usage_error({"allreduce", "--max-mib", "0"}), HasSubstr("at least 1"));
  EXPECT_THAT(usage_error({"loader", "--seconds", "0"}), HasSubstr("more than 0"));
}

TEST_F(BenchTest, PresetsAreTheSizesOfThePeers) {
  const BenchFolder folder;
  const runtime::Config lstm = bench_config("", "seed-lstm", {}, folder.path());
  EXPECT_EQ(lstm.data.inputs.size(), 100);
  EXPECT_EQ(lstm.data.targets.size(), 1);
  EXPECT_EQ(lstm.data.window, 50);
  EXPECT_EQ(lstm.train.batch_size, 256);
  const runtime::Config patch =
      bench_config("", "patch-transformer", {"train.batch_size=64"}, folder.path());
  EXPECT_EQ(patch.data.targets, patch.data.inputs);
  EXPECT_EQ(patch.data.inputs.size(), 7);
  EXPECT_EQ(patch.data.window, 512);
  EXPECT_EQ(patch.data.horizon, 96);
  EXPECT_EQ(patch.train.batch_size, 64);
}

TEST_F(BenchTest, ItsFilesAreGoneAtTheEnd) {
  std::string path;
  {
    const BenchFolder folder;
    path = folder.path();
    bench_config("", "patch-transformer", {}, path);
    EXPECT_TRUE(std::filesystem::exists(path + "/series.h5"));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(BenchTest, TrainingReportsItsSteps) {
  const json result =
      run({"train", "--json", "--steps", "75", "--warmup", "25", "--set", "train.batch_size=4",
           "--set", "train.micro_batch_size=4", "--set", "model.hidden_size=8", "--set",
           "model.num_layers=1", "--set", "data.window=5"});
  EXPECT_EQ(result["model"], "lstm");
  EXPECT_EQ(result["ranks"], 1);
  EXPECT_EQ(result["graph"], "off");
  const double ms = result["step_ms"];
  EXPECT_GT(ms, 0);
  EXPECT_LE(result["step_ms_least"], ms);
  EXPECT_GE(result["step_ms_most"], ms);
  EXPECT_NEAR(result["samples_per_s"].get<double>(), 4000 / ms, 1e-6 * 4000 / ms);
  // 2 x (5 steps of 4 gates x 8 x (100 + 8), and the head's 8), threefold, 4 samples.
  const double flops = 3 * 2 * (5 * 4 * 8 * 108 + 8) * 4;
  EXPECT_NEAR(result["tflops_per_s_and_rank"].get<double>(), flops / (ms * 1e-3) / 1e12,
              1e-9 * flops);
}

TEST_F(BenchTest, InferenceReportsEveryBatchAndPrecision) {
  const json result = run({"infer", "--json", "--set", "model.hidden_size=8", "--set",
                           "model.num_layers=1", "--set", "data.window=3"});
  ASSERT_EQ(result["results"].size(), 10);
  for (const json& one : result["results"]) {
    EXPECT_NEAR(one["samples_per_s"].get<double>(),
                1e3 * one["batch"].get<double>() / one["ms"].get<double>(), 1e-3);
  }
  EXPECT_EQ(result["results"][0]["batch"], 32);
  EXPECT_EQ(result["results"][9]["precision"], "bf16");
}

TEST_F(BenchTest, TheLoaderReportsWindows) {
  const json result = run({"loader", "--json", "--seconds", "0.1"});
  EXPECT_EQ(result["results"][0]["gathered_by"], "host");
  EXPECT_GT(result["results"][0]["windows_per_s"].get<double>(), 0);
}

TEST_F(BenchTest, AllReduceReportsSizes) {
  const json result = run({"allreduce", "--json", "--max-mib", "1"});
  EXPECT_EQ(result["ranks"], 1);
  EXPECT_EQ(result["backend"], "local");
  ASSERT_EQ(result["results"].size(), 18);
  EXPECT_EQ(result["results"][0]["bytes"], 1024);
  EXPECT_EQ(result["results"][17]["type"], "bf16");
}

TEST(Median, IsTheMiddle) {
  EXPECT_EQ(median({}), 0);
  EXPECT_EQ(median({3, 1, 2}), 2);
}

}  // namespace
}  // namespace longship::launcher
