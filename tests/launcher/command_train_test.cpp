#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

#include "../runtime/test_series.h"
#include "launcher/command.h"
#include "runtime/error.h"
#include "single_process.h"

namespace longship::launcher {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// `longship train` as one process; ranks are tested under mpirun in tests/multirank.
class TrainCommand : public SingleProcess {
 protected:
  void SetUp() override {
    SingleProcess::SetUp();
    write_waves(folder_, {200});
    write(
        "data: {path: series.h5, inputs: [a, b], targets: [a], window: 6, horizon: 2}\n"
        "model: {name: linear}\n"
        "train: {steps: 4, batch_size: 24, micro_batch_size: 4}\n");
  }

  void write(const std::string& text) const { std::ofstream(file_) << text; }

  // The exit code; standard output and error go to out_ and err_.
  int train(std::vector<std::string> words) {
    words.insert(words.end(), {"--set", "run.directory=" + folder_ / "runs"});
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    int code = -1;
    try {
      code = train_command().run(words);
    } catch (const std::exception& error) {
      code = static_cast<int>(runtime::exit_code_of(error));
      std::cerr << error.what();
    }
    std::cout.flush();
    out_ = testing::internal::GetCapturedStdout();
    err_ = testing::internal::GetCapturedStderr();
    return code;
  }

  bool exists(const std::string& name) const {
    return std::filesystem::exists(folder_.path() / name);
  }

  tests::TemporaryFolder folder_;
  std::string file_ = folder_ / "run.yaml";
  std::string out_;
  std::string err_;
};

TEST_F(TrainCommand, RefusesWrongCommandLines) {
  EXPECT_EQ(train({}), 2);
  EXPECT_THAT(err_, HasSubstr("train takes one run file; see longship train --help"));
  EXPECT_EQ(train({file_, file_}), 2);
  EXPECT_EQ(train({file_, "--resume", "maybe"}), 2);
  EXPECT_THAT(err_, HasSubstr("--resume takes auto, none or an existing path, not 'maybe'"));
  EXPECT_EQ(train({file_, "--ranks", "2"}), 2);
  EXPECT_THAT(err_, HasSubstr("--ranks goes with --dry-run"));
  EXPECT_EQ(train({file_, "--dry-run", "--ranks", "0"}), 2);
  EXPECT_EQ(train({file_, "--resme", "auto"}), 2);
  EXPECT_EQ(train({file_, "--set", "no-equals-sign"}), 2);
  EXPECT_FALSE(exists("runs"));
}

TEST_F(TrainCommand, HelpListsOptionsAndKeys) {
  EXPECT_EQ(train({"--help"}), 0);
  EXPECT_THAT(out_, AllOf(HasSubstr("--resume"), HasSubstr("--dry-run"),
                          HasSubstr("micro_batch_size"), HasSubstr("clip_norm")));
}

TEST_F(TrainCommand, ADryRunPrintsThePlanAndWritesNothing) {
  EXPECT_EQ(train({file_, "--dry-run", "--ranks", "3"}), 0);
  EXPECT_THAT(out_, AllOf(HasSubstr("linear, 26 parameters"),
                          HasSubstr("24 = 6 micro-batches x 4, 2 a rank on 3 ranks"),
                          HasSubstr("fp16 over auto"), HasSubstr("nothing was started")));
  EXPECT_FALSE(exists("runs"));
  EXPECT_EQ(train({file_, "--dry-run", "--ranks", "7"}), 3);
  EXPECT_THAT(err_, HasSubstr("more ranks (7) than micro-batches (6"));
}

TEST_F(TrainCommand, ADryRunLooksAtTheRunThatIsThere) {
  EXPECT_EQ(train({file_, "--dry-run"}), 0);
  EXPECT_THAT(out_, HasSubstr("a new one in " + (folder_ / "runs/run-DATE-TIME")));
  EXPECT_EQ(train({file_, "--dry-run", "--set", "run.name=one"}), 0);
  EXPECT_THAT(out_, HasSubstr("a new one in " + (folder_ / "runs/one\n")));

  ASSERT_EQ(train({file_, "--set", "run.name=one"}), 0) << err_;
  EXPECT_EQ(train({file_, "--dry-run", "--set", "run.name=one"}), 0);
  EXPECT_THAT(out_, AllOf(HasSubstr("goes on in " + (folder_ / "runs/one from step-000000004")),
                          HasSubstr("note: the run is finished")));
  EXPECT_EQ(train({file_, "--dry-run", "--set", "run.name=one", "--set", "train.steps=9"}), 0);
  EXPECT_THAT(out_, Not(HasSubstr("the run is finished")));
  EXPECT_EQ(train({file_, "--dry-run", "--set", "run.name=one", "--resume", "none"}), 3);
  EXPECT_THAT(err_, HasSubstr("--resume none never overwrites one"));
  EXPECT_EQ(train({file_, "--dry-run", "--set", "run.name=one", "--set", "data.window=5"}), 3);
  EXPECT_THAT(err_, HasSubstr("data.window (6 there, 5 now)"));

  const std::vector<std::string> other = {file_,          "--dry-run", "--set",
                                          "run.name=two", "--resume",  folder_ / "runs/one"};
  EXPECT_EQ(train(other), 0) << err_;
  EXPECT_THAT(out_, HasSubstr(", from step 4 of " + (folder_ / "runs/one/checkpoints/step-0")));
  std::vector<std::string> changed = other;
  changed.insert(changed.end(), {"--set", "run.seed=8"});
  EXPECT_EQ(train(changed), 3);
  EXPECT_THAT(err_, AllOf(HasSubstr("the run of "), HasSubstr("run.seed"),
                          HasSubstr("leave --resume out")));
  EXPECT_EQ(train({file_, "--dry-run", "--resume", folder_ / "series.h5"}), 4);
  EXPECT_FALSE(exists("runs/two"));
}

TEST_F(TrainCommand, ADryRunRefusesAFolderThatARunCannotBeIn) {
  std::filesystem::create_directories(folder_.path() / "runs/thesis");
  std::ofstream(folder_ / "runs/thesis/text") << "x";
  EXPECT_EQ(train({file_, "--dry-run", "--set", "run.name=thesis"}), 3);
  EXPECT_THAT(err_, HasSubstr("exists and holds no run"));
  std::filesystem::remove_all(folder_.path() / "runs");
  std::ofstream(folder_ / "runs") << "x";
  EXPECT_EQ(train({file_, "--dry-run", "--set", "run.name=one"}), 3);
  EXPECT_THAT(err_, AllOf(HasSubstr(folder_ / "runs is no folder"),
                          HasSubstr("choose another run.directory")));
}

TEST_F(TrainCommand, BatchesOfMoreThanAnEpochAreTold) {
  const std::vector<std::string> wide = {"--set", "train.batch_size=2400"};
  for (const bool dry : {true, false}) {
    std::vector<std::string> words = {file_, "--set", "data.split=[0.9, 0, 0.1]"};
    words.insert(words.end(), wide.begin(), wide.end());
    if (dry) words.emplace_back("--dry-run");
    ASSERT_EQ(train(words), 0) << err_;
    EXPECT_THAT(dry ? out_ : err_,
                AllOf(HasSubstr("train.batch_size 2400 is more than the 173 training windows"),
                      HasSubstr("13.9 times"), HasSubstr("there are no validation windows")));
  }
}

TEST_F(TrainCommand, ARefusedStartLeavesNoFolderBehind) {
  write(
      "data: {path: absent.h5, inputs: [a], targets: [a], window: 6, horizon: 2}\n"
      "model: {name: linear}\ntrain: {steps: 4, batch_size: 24}\n");
  EXPECT_EQ(train({file_}), 3);
  EXPECT_THAT(err_, HasSubstr("absent.h5"));
  EXPECT_EQ(train({file_, "--set", "run.name=one"}), 3);
  EXPECT_FALSE(exists("runs"));
  // Also where the trainer is what refuses.
  for (const char* key : {"train.graph=on", "data.residence=device", "train.memory_fraction=0.5"}) {
    EXPECT_EQ(train({file_, "--set", key, "--set", "data.path=" + folder_ / "series.h5"}), 3);
    EXPECT_THAT(err_, HasSubstr("needs a GPU")) << key;
    EXPECT_FALSE(exists("runs")) << key;
  }
  // One that was there stays.
  std::filesystem::create_directories(folder_.path() / "runs/mine");
  EXPECT_EQ(train({file_, "--set", "run.name=mine"}), 3);
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path() / "runs/mine"));
}

TEST_F(TrainCommand, ASettingMayHoldCommas) {
  EXPECT_EQ(train({file_, "--dry-run", "--set=data.targets=[a, b]"}), 0);
  EXPECT_THAT(out_, HasSubstr("a, b -> a, b"));
}

TEST_F(TrainCommand, ErrorsOfTheRunFileAreToldOnceWithTheirCode) {
  write("data: {path: series.h5}\nmodel: {nam: linear}\n");
  EXPECT_EQ(train({file_}), 3);
  EXPECT_THAT(err_, AllOf(HasSubstr("longship: error: "), HasSubstr("run.yaml:2")));
  EXPECT_EQ(train({folder_ / "absent.yaml"}), 3);
  EXPECT_THAT(err_, HasSubstr("absent.yaml"));
  EXPECT_FALSE(exists("runs"));
}

TEST_F(TrainCommand, TrainsSaysWhenThereIsNothingLeftAndGoesOnWithMore) {
  const std::vector<std::string> run = {file_, "--set", "run.name=one"};
  ASSERT_EQ(train(run), 0) << err_;
  EXPECT_THAT(err_, AllOf(HasSubstr("a new run, starting at step 0"), HasSubstr("done: 4 steps")));
  for (const char* name : {"config.yaml", "run.json", "metrics.jsonl", "logs/rank-00000.log",
                           "checkpoints/latest", "checkpoints/step-000000004/manifest.json"}) {
    EXPECT_TRUE(exists(std::string("runs/one/") + name)) << name;
  }
  EXPECT_EQ(train(run), 0);
  EXPECT_THAT(err_, HasSubstr("the run is finished (step 4 of 4)"));
  EXPECT_EQ(train({file_, "--set", "run.name=one", "--set", "train.steps=6"}), 0);
  EXPECT_THAT(err_, AllOf(HasSubstr("(step 4 of 6)"), HasSubstr("done: 6 steps")));
  EXPECT_TRUE(exists("runs/one/checkpoints/step-000000006"));
}

TEST_F(TrainCommand, NeverOverwritesAndNeverMixesRuns) {
  ASSERT_EQ(train({file_, "--set", "run.name=one"}), 0) << err_;
  EXPECT_EQ(train({file_, "--set", "run.name=one", "--resume", "none"}), 3);
  EXPECT_THAT(err_, HasSubstr("--resume none never overwrites one"));
  EXPECT_EQ(train({file_, "--set", "run.name=one", "--set", "data.window=5"}), 3);
  EXPECT_THAT(
      err_, AllOf(HasSubstr("cannot change on resume"), HasSubstr("data.window (6 there, 5 now)")));
}

TEST_F(TrainCommand, StartsFromACheckpointThatItIsGiven) {
  ASSERT_EQ(train({file_, "--set", "run.name=one"}), 0) << err_;
  EXPECT_EQ(train({file_, "--set", "run.name=two", "--set", "train.steps=5", "--resume",
                   folder_ / "runs/one"}),
            0);
  EXPECT_THAT(err_, AllOf(HasSubstr("(step 4 of 5)"), HasSubstr("done: 5 steps")));
  EXPECT_TRUE(exists("runs/two/checkpoints/step-000000005"));
}

TEST_F(TrainCommand, NamesWhatIsMissingInTheData) {
  EXPECT_EQ(train({file_, "--set", "data.inputs=[a, c]"}), 3);
  EXPECT_THAT(err_, AllOf(HasSubstr("longship: error: "), HasSubstr("'c'")));
  EXPECT_EQ(train({file_, "--set", "data.path=absent.h5"}), 3);
  EXPECT_THAT(err_, HasSubstr("absent.h5"));
}

}  // namespace
}  // namespace longship::launcher
