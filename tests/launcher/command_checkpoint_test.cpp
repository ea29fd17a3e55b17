#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "../runtime/checkpoint_support.h"
#include "../runtime/temporary_folder.h"
#include "launcher/command.h"
#include "runtime/checkpoint.h"

namespace longship::launcher {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using runtime::CheckpointError;
using runtime::UsageError;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

// A run with checkpoints of steps 99 (best), 100 and 1000 (latest), and one set aside.
class CheckpointCommand : public ::testing::Test {
 protected:
  CheckpointCommand() : run_(folder_ / "run") {
    fs::create_directory(run_);
    const auto host = comm::make_local_communicator();
    runtime::Checkpointer writer(run_ + "/checkpoints", *host, 0);
    for (int64_t step : {99, 100, 1000}) writer.save(state(step), step == 99);
    fs::create_directory(run_ + "/checkpoints/step-000000050.bad");
  }

  static runtime::TrainingState state(int64_t step) {
    runtime::TrainingState result = tests::make_state(step);
    result.scalars["scaler"] = {{"scale", 256.0}, {"growth_tracker", 17}};
    result.scalars["normalizer"] = {{"inputs", {{"mean", {1.5}}}}};
    result.scalars["config"] = {{"text", "run: {name: a}\ntrain: {epochs: 1}\n"}};
    result.scalars["schedule"] = {{"next_lr", 0.001}};
    return result;
  }
  std::string checkpoint(const std::string& name) const { return run_ + "/checkpoints/" + name; }

  // Runs the command and returns its standard output; the exit code is in code_.
  std::string output(const std::vector<std::string>& words) {
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    try {
      code_ = checkpoint_command().run(words);
    } catch (...) {
      testing::internal::GetCapturedStdout();
      testing::internal::GetCapturedStderr();
      throw;
    }
    messages_ = testing::internal::GetCapturedStderr();
    return testing::internal::GetCapturedStdout();
  }

  tests::TemporaryFolder folder_;
  std::string run_;
  int code_ = -1;
  std::string messages_;
};

TEST_F(CheckpointCommand, ListsByNumberWithLatestBestAndSetAside) {
  const json report = json::parse(output({"list", run_, "--json"}));
  EXPECT_EQ(code_, 0);
  ASSERT_EQ(report["checkpoints"].size(), 3U);
  const json& first = report["checkpoints"][0];
  EXPECT_EQ(first["step"], 99);
  EXPECT_EQ(first["applied"], 97);
  EXPECT_EQ(first["best"], true);
  EXPECT_EQ(first["latest"], false);
  EXPECT_EQ(first["files"], 3);
  EXPECT_GT(first["bytes"], 1000);
  EXPECT_EQ(report["checkpoints"][1]["step"], 100);
  EXPECT_EQ(report["checkpoints"][2]["step"], 1000);
  EXPECT_EQ(report["checkpoints"][2]["latest"], true);
  EXPECT_EQ(report["set_aside"], json({"step-000000050.bad"}));

  EXPECT_THAT(output({"list", run_}),
              AllOf(HasSubstr("step-000001000"), HasSubstr(" latest\n"), HasSubstr(" best\n"),
                    HasSubstr("step-000000050.bad  set aside")));
  EXPECT_EQ(json::parse(output({"list", run_ + "/checkpoints", "--json"}))["checkpoints"].size(),
            3U);
}

TEST_F(CheckpointCommand, ListTellsWhichCannotBeUsed) {
  fs::remove(checkpoint("step-000000100/manifest.json"));
  const json report = json::parse(output({"list", run_, "--json"}));
  EXPECT_THAT(report["checkpoints"][1]["problem"].get<std::string>(),
              HasSubstr("manifest.json is missing"));
  EXPECT_EQ(report["checkpoints"][1]["step"], 100);
}

TEST_F(CheckpointCommand, InspectShowsWhatATrainingNeeds) {
  const json report = json::parse(output({"inspect", checkpoint("best"), "--json"}));
  EXPECT_EQ(report["step"], 99);
  EXPECT_EQ(report["applied"], 97);
  EXPECT_EQ(report["scalars"]["scaler"]["scale"], 256.0);
  EXPECT_EQ(report["weights"][0]["name"], "lstm.weight_ih_l0");
  EXPECT_EQ(report["weights"][0]["shape"], json({12, 5}));
  EXPECT_EQ(report["optimizer"][1]["state"], "exp_avg_sq");
  EXPECT_FALSE(report.contains("missing"));

  EXPECT_THAT(output({"inspect", checkpoint("best")}),
              AllOf(HasSubstr("step          99\n"), HasSubstr("growth_tracker            17\n"),
                    HasSubstr("next_lr                   0.001\n"),
                    HasSubstr("inputs.mean               [1.5]\n"),
                    HasSubstr("exp_avg_sq      F32 [12,5]\n"), HasSubstr("model.safetensors"),
                    HasSubstr("text                      2 lines (shown by --json)")));
}

TEST_F(CheckpointCommand, RunMeansItsLatestAndSaysWhich) {
  EXPECT_EQ(json::parse(output({"inspect", run_, "--json"}))["step"], 1000);
  EXPECT_THAT(messages_, HasSubstr("step-000001000"));
  output({"inspect", fs::canonical(checkpoint("best")).string(), "--json"});
  EXPECT_THAT(messages_, IsEmpty());
}

TEST_F(CheckpointCommand, VerifyEndsWithFourAndNamesEachProblem) {
  EXPECT_THAT(output({"verify", run_}), HasSubstr("all files are as they were written"));
  EXPECT_EQ(code_, 0);

  std::ofstream(checkpoint("step-000001000/model.safetensors"), std::ios::app) << "x";
  fs::remove(checkpoint("step-000001000/state.safetensors"));
  EXPECT_THAT(output({"verify", run_}),
              AllOf(HasSubstr("model.safetensors has"), HasSubstr("state.safetensors is missing")));
  EXPECT_EQ(code_, 4);
  const json report = json::parse(output({"verify", run_, "--json"}));
  EXPECT_EQ(code_, 4);
  EXPECT_EQ(report["verified"], false);
  EXPECT_EQ(report["problems"].size(), 2U);
  EXPECT_TRUE(fs::exists(checkpoint("step-000001000")));  // nothing is renamed
}

TEST_F(CheckpointCommand, VerifyTellsOfAFileThatCannotBeOpened) {
  const fs::path model = checkpoint("step-000001000/model.safetensors");
  fs::remove(model);
  fs::create_symlink("model.safetensors", model);
  const json report = json::parse(output({"verify", run_, "--json"}));
  EXPECT_EQ(code_, 4);
  ASSERT_EQ(report["problems"].size(), 1U);
  EXPECT_THAT(report["problems"][0].get<std::string>(),
              HasSubstr("model.safetensors: Too many levels of symbolic links"));
}

TEST_F(CheckpointCommand, VerifyOfARunSeesALatestThatWasNotWrittenToItsEnd) {
  fs::remove(checkpoint("step-000001000/manifest.json"));
  EXPECT_THAT(output({"verify", run_}),
              HasSubstr("latest names step-000001000, which is not there or has no manifest.json"));
  EXPECT_EQ(code_, 4);
}

TEST_F(CheckpointCommand, VerifyOfARunSeesALatestThatLeadsOutOfIt) {
  const fs::path elsewhere = folder_.path() / "elsewhere";
  fs::copy(fs::canonical(checkpoint("best")), elsewhere, fs::copy_options::recursive);
  fs::remove(checkpoint("latest"));
  fs::create_symlink(elsewhere, checkpoint("latest"));
  EXPECT_THAT(output({"verify", run_}), AllOf(HasSubstr("elsewhere, which is not of this run"),
                                              HasSubstr("a training takes")));
  EXPECT_EQ(code_, 4);
}

TEST_F(CheckpointCommand, ExportWritesTheWeightsWithConfigAndNormalizer) {
  const std::string file = folder_ / "out.safetensors";
  EXPECT_THAT(output({"export", checkpoint("best"), "--output", file}),
              HasSubstr("4 tensors of step 99"));
  const runtime::SafetensorsReader reader(file);
  for (const runtime::NamedTensor& entry : state(99).weights) {
    EXPECT_TRUE(tests::same_bits(reader.read(entry.name), entry.tensor)) << entry.name;
  }
  EXPECT_EQ(reader.metadata().at("longship_config"), "run: {name: a}\ntrain: {epochs: 1}\n");
  EXPECT_EQ(json::parse(reader.metadata().at("longship_normalizer")),
            state(99).scalars["normalizer"]);

  EXPECT_THAT(
      [&] {
        output({"export", run_, "--output", file});
      },
      ThrowsMessage<UsageError>(HasSubstr("give --force")));
  output({"export", run_, "--output", file, "--force"});
  EXPECT_EQ(runtime::SafetensorsReader(file).metadata().at("longship_step"), "1000");
  // Only the run and the file: no temporary names are left.
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator()), 2);
}

TEST_F(CheckpointCommand, ExportOfADamagedCheckpointWritesNothing) {
  std::ofstream(checkpoint("step-000001000/model.safetensors"), std::ios::app) << "x";
  EXPECT_THROW(output({"export", run_, "--output", folder_ / "out"}), CheckpointError);
  EXPECT_FALSE(fs::exists(folder_.path() / "out"));
  EXPECT_THROW(output({"export", checkpoint("best"), "--output", folder_ / "no/such/out"}),
               UsageError);
}

TEST_F(CheckpointCommand, ForeignFilesGetOneLine) {
  std::ofstream(folder_ / "model.pt", std::ios::binary) << std::string("PK\x03\x04", 4);
  for (const char* subcommand : {"inspect", "verify", "list"}) {
    EXPECT_THAT(
        [&] {
          output({subcommand, folder_ / "model.pt"});
        },
        ThrowsMessage<CheckpointError>(HasSubstr("is a ZIP archive")))
        << subcommand;
  }
}

TEST_F(CheckpointCommand, WrongWordsAreUsageErrors) {
  EXPECT_THAT([&] { output({}); }, ThrowsMessage<UsageError>(HasSubstr("needs a subcommand")));
  EXPECT_THAT(
      [&] {
        output({"remove", run_});
      },
      ThrowsMessage<UsageError>(HasSubstr("no 'checkpoint remove'")));
  EXPECT_THAT([&] { output({"verify"}); }, ThrowsMessage<UsageError>(HasSubstr("takes one path")));
  EXPECT_THROW(output({"verify", run_, run_}), UsageError);
  EXPECT_THROW(output({"verify", run_, "--yaml"}), UsageError);
  EXPECT_THAT(
      [&] {
        output({"export", run_});
      },
      ThrowsMessage<UsageError>(HasSubstr("needs --output")));
}

TEST_F(CheckpointCommand, HelpAtEveryLevel) {
  EXPECT_THAT(output({"--help"}), HasSubstr("export CKPT --output FILE.safetensors"));
  EXPECT_EQ(code_, 0);
  for (const char* subcommand : {"list", "inspect", "verify"}) {
    EXPECT_THAT(output({subcommand, "--help"}), HasSubstr("--json")) << subcommand;
  }
  EXPECT_THAT(output({"export", "--help"}), AllOf(HasSubstr("--output"), HasSubstr("--force")));
}

}  // namespace
}  // namespace longship::launcher
