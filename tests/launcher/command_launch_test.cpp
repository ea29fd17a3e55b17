#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "launcher/command.h"
#include "runtime/error.h"

namespace longship::launcher {
namespace {

using testing::HasSubstr;

std::string usage_error(const std::vector<std::string>& arguments) {
  try {
    launch_command().run(arguments);
  } catch (const runtime::UsageError& error) {
    EXPECT_EQ(error.code(), runtime::ExitCode::kUsage);
    return error.what();
  }
  ADD_FAILURE() << "not refused";
  return "";
}

class LaunchCommandTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = std::filesystem::temp_directory_path() / "longship-launch-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    mpirun_ = folder_ / "mpirun";
    std::ofstream(mpirun_) << "#!/bin/sh\n"
                              "[ \"$1\" = --version ] && echo 'mpirun (Open MPI) 4.1.4' && exit\n"
                              "printf '%s\\n' \"$@\" > '"
                           << (folder_ / "words").string() << "'\nexit 6\n";
    chmod(mpirun_.c_str(), 0755);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_;
  std::filesystem::path mpirun_;
};

TEST_F(LaunchCommandTest, DryRunPrintsALineForAShell) {
  testing::internal::CaptureStdout();
  const int code =
      launch_command().run({"-n", "3", "--mpirun", mpirun_, "--mpirun-args", "--mca btl 'tcp,self'",
                            "--dry-run", "--", "train", "my run.yaml"});
  const std::string line = testing::internal::GetCapturedStdout();
  EXPECT_EQ(code, 0);
  EXPECT_THAT(line, testing::StartsWith(mpirun_.string() + " -q"));
  EXPECT_THAT(line, HasSubstr(" -n 3 "));
  EXPECT_THAT(line, HasSubstr("--mca btl tcp,self"));
  EXPECT_THAT(line, testing::EndsWith(" train 'my run.yaml'\n"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "words"));
}

TEST_F(LaunchCommandTest, RunsMpirunAndReturnsItsCode) {
  EXPECT_EQ(launch_command().run({"--hosts", "a:1,b:2", "--mpirun", mpirun_, "--", "train",
                                  "run.yaml", "--set", "train.epochs=2"}),
            6);
  std::ifstream file(folder_ / "words");
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word);) words.push_back(word);
  EXPECT_THAT(words, testing::IsSupersetOf(
                         {"-H", "a:1,b:2", "train", "run.yaml", "--set", "train.epochs=2"}));
}

TEST_F(LaunchCommandTest, RestartsNeedARunWithAName) {
  const std::string config = folder_ / "run.yaml";
  std::ofstream(config) << "data: {path: a.h5, inputs: [a], targets: [a], window: 2, horizon: 1}\n"
                           "model: {name: linear}\ntrain: {steps: 4}\n";
  const auto launch = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"--max-restarts", "2",   "--mpirun", mpirun_, "-n", "2", "--",
                                      "train",          config};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  EXPECT_THAT(usage_error(launch({})), HasSubstr("--max-restarts needs a run with a name"));
  EXPECT_EQ(launch_command().run(launch({"--set", "run.name=one"})), 6);
}

TEST_F(LaunchCommandTest, SaysWhichSignalEndedARank) {
  std::ofstream(mpirun_) << "#!/bin/sh\n"
                            "[ \"$1\" = --version ] && echo 'mpirun (Open MPI) 4.1.4' && exit\n"
                            "exit 137\n";
  testing::internal::CaptureStderr();
  const int code = launch_command().run(
      {"-n", "2", "--max-restarts", "0", "--mpirun", mpirun_, "--", "train", "run.yaml"});
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(code, 137);
  EXPECT_THAT(text, HasSubstr("longship launch: a rank was ended by signal 9; give the same "
                              "command again"));
}

// Each rank would plan for itself, as one of one.
TEST(LaunchCommandLine, ADryRunOfTheTrainingNeedsNoRanks) {
  EXPECT_THAT(usage_error({"-n", "2", "--", "train", "run.yaml", "--dry-run"}),
              HasSubstr("longship train run.yaml --dry-run --ranks 2"));
}

TEST(LaunchCommandLine, HelpListsTheOptions) {
  testing::internal::CaptureStdout();
  EXPECT_EQ(launch_command().run({"--help"}), 0);
  const std::string text = testing::internal::GetCapturedStdout();
  for (const std::string option :
       {"--ranks", "--hosts", "--max-restarts", "--mpirun", "--mpirun-args", "--dry-run"}) {
    EXPECT_THAT(text, HasSubstr(option));
  }
}

TEST(LaunchCommandLine, MistakesAreUsageErrors) {
  EXPECT_THAT(usage_error({"-n", "2"}), HasSubstr("after -- comes one of train"));
  EXPECT_THAT(usage_error({"--", "trian", "x"}), HasSubstr("'trian'"));
  EXPECT_THAT(usage_error({"-n", "0", "--", "train", "x"}), HasSubstr("at least 1 rank"));
  EXPECT_THAT(usage_error({"-n", "two", "--", "train", "x"}), HasSubstr("two"));
  for (const std::string hosts : {"", "a:8,", "a:0", "a:-1", "a:x", ":2", "a:2x"}) {
    EXPECT_THAT(usage_error({"--hosts", hosts, "--", "train", "x"}),
                HasSubstr("is not HOST or HOST:RANKS"))
        << hosts;
  }
  EXPECT_THAT(usage_error({"--frobnicate", "--", "train", "x"}), HasSubstr("frobnicate"));
  EXPECT_THAT(usage_error({"train", "x"}), HasSubstr("'train' belongs to nothing"));
  EXPECT_THAT(usage_error({"--max-restarts", "-1", "--", "train", "x"}),
              HasSubstr("may not be negative"));
  EXPECT_THAT(usage_error({"--mpirun-args", "'open", "--", "train", "x"}), HasSubstr("quote"));
}

}  // namespace
}  // namespace longship::launcher
