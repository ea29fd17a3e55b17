#include "launcher/mpirun_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "runtime/error.h"

namespace longship::launcher {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Words = std::vector<std::string>;

LaunchOptions train_options() {
  LaunchOptions options;
  options.program_arguments = {"train", "run.yaml"};
  return options;
}

Machine machine_of(int cores, int gpus) {
  Machine machine;
  machine.cores = cores;
  machine.gpus = gpus;
  return machine;
}

TEST(MpirunCommand, OneRankForEachGpu) {
  EXPECT_THAT(
      mpirun_command(train_options(), machine_of(64, 8), "/usr/bin/mpirun", "/bin/longship"),
      ElementsAre("/usr/bin/mpirun", "-q", "-n", "8", "--bind-to", "none", "/bin/longship", "train",
                  "run.yaml"));
}

TEST(MpirunCommand, OneRankWithoutGpus) {
  EXPECT_THAT(
      mpirun_command(train_options(), machine_of(64, 0), "mpirun", "longship"),
      ElementsAre("mpirun", "-q", "-n", "1", "--bind-to", "none", "longship", "train", "run.yaml"));
}

TEST(MpirunCommand, RootAndMoreRanksThanCoresGetTheirFlags) {
  LaunchOptions options = train_options();
  options.ranks = 4;
  Machine machine = machine_of(2, 0);
  machine.root = true;
  EXPECT_THAT(mpirun_command(options, machine, "mpirun", "longship"),
              ElementsAre("mpirun", "-q", "--allow-run-as-root", "-n", "4", "--oversubscribe",
                          "--mca", "mpi_yield_when_idle", "1", "--bind-to", "none", "longship",
                          "train", "run.yaml"));
}

TEST(MpirunCommand, HostsBringTheirSlotsAndGetTheVariables) {
  LaunchOptions options = train_options();
  options.hosts = "a:8,b:8";
  Machine machine = machine_of(2, 0);
  machine.exported = {"LD_LIBRARY_PATH", "NCCL_DEBUG"};
  EXPECT_THAT(mpirun_command(options, machine, "mpirun", "longship"),
              ElementsAre("mpirun", "-q", "-H", "a:8,b:8", "-x", "LD_LIBRARY_PATH", "-x",
                          "NCCL_DEBUG", "--bind-to", "none", "longship", "train", "run.yaml"));
}

TEST(MpirunCommand, AnAllocationGivesTheSlots) {
  Machine machine = machine_of(2, 4);
  machine.allocation = true;
  EXPECT_THAT(mpirun_command(train_options(), machine, "mpirun", "longship"),
              ElementsAre("mpirun", "-q", "--bind-to", "none", "longship", "train", "run.yaml"));
}

TEST(MpirunCommand, GivenWordsWinOverTheDefaults) {
  LaunchOptions options = train_options();
  options.ranks = 4;
  options.mpirun_arguments = {"--bind-to", "core", "--oversubscribe"};
  EXPECT_THAT(mpirun_command(options, machine_of(2, 0), "mpirun", "longship"),
              ElementsAre("mpirun", "-q", "-n", "4", "--bind-to", "core", "--oversubscribe",
                          "longship", "train", "run.yaml"));
}

TEST(RestartCommand, ResumesFromTheNewestCheckpoint) {
  EXPECT_THAT(restart_command({"train", "run.yaml", "--resume", "none", "--set", "a.b=1"}),
              ElementsAre("train", "run.yaml", "--resume", "auto", "--set", "a.b=1"));
  EXPECT_THAT(restart_command({"train", "run.yaml", "--resume=runs/x/checkpoints/best"}),
              ElementsAre("train", "run.yaml", "--resume=auto"));
  EXPECT_THAT(restart_command({"train", "run.yaml"}), ElementsAre("train", "run.yaml"));
}

TEST(ScrubbedEnvironment, DropsWhatMpirunLeftAndKeepsTheUsersSettings) {
  EXPECT_THAT(scrubbed_environment({"PATH=/bin", "PMIX_RANK=0", "PMI_SIZE=4", "PMIXED=1",
                                    "OMPI_MCA_btl=tcp,self", "OMPI_ALLOW_RUN_AS_ROOT=1",
                                    "OMPI_FILE_LOCATION=/tmp/x", "SLURM_JOB_ID=3"}),
              ElementsAre("PATH=/bin", "PMIXED=1", "OMPI_MCA_btl=tcp,self",
                          "OMPI_ALLOW_RUN_AS_ROOT=1", "SLURM_JOB_ID=3"));
}

TEST(ScrubbedEnvironment, ARanksSettingsAreTheEnclosingMpiruns) {
  EXPECT_THAT(scrubbed_environment({"OMPI_COMM_WORLD_SIZE=2", "OMPI_MCA_ess=pmi", "HOME=/root"}),
              ElementsAre("HOME=/root"));
}

TEST(ShellWords, QuotingIsReadBack) {
  const Words words{"plain",       "a b",         "Zürich,1/'q'/", "$HOME", "",
                    "line\nbreak", "back\\slash", "\"twice\"",     "-n"};
  EXPECT_EQ(split_words(shell_quoted(words)), words);
  EXPECT_EQ(shell_quoted("run-1.yaml"), "run-1.yaml");
  EXPECT_EQ(shell_quoted("a b"), "'a b'");
  EXPECT_EQ(shell_quoted("it's"), "'it'\\''s'");
}

TEST(ShellWords, SplitsLikeAShell) {
  EXPECT_THAT(split_words("  --mca btl \"tcp, self\" -x 'A B'c\\ d  "),
              ElementsAre("--mca", "btl", "tcp, self", "-x", "A Bc d"));
  EXPECT_THAT(split_words(""), testing::IsEmpty());
  EXPECT_THROW(split_words("--x 'open"), runtime::UsageError);
}

class FindMpirun : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = std::filesystem::temp_directory_path() / "longship-mpirun-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    path_ = std::getenv("PATH");
  }
  void TearDown() override {
    setenv("PATH", path_.c_str(), 1);
    std::filesystem::remove_all(folder_);
  }
  std::string script(const std::string& name, const std::string& prints) {
    const std::filesystem::path file = folder_ / name;
    std::ofstream(file) << "#!/bin/sh\necho '" << prints << "'\n";
    chmod(file.c_str(), 0755);
    return file;
  }
  std::filesystem::path folder_;
  std::string path_;
};

TEST_F(FindMpirun, TakesOpenMpisFromPath) {
  const std::string file = script("mpirun", "mpirun (Open MPI) 4.1.4");
  setenv("PATH", (folder_.string() + ":" + path_).c_str(), 1);
  EXPECT_EQ(find_mpirun("mpirun"), file);
  EXPECT_EQ(find_mpirun(file), file);
}

TEST_F(FindMpirun, NamesAnotherMpi) {
  const std::string file = script("mpirun", "HYDRA build details: Version: 4.0.2");
  try {
    find_mpirun(file);
    FAIL() << "not refused";
  } catch (const runtime::Error& error) {
    EXPECT_EQ(error.code(), runtime::ExitCode::kSetup);
    EXPECT_THAT(error.what(), HasSubstr(file + " is not Open MPI's mpirun"));
    EXPECT_THAT(error.what(), HasSubstr("HYDRA build details"));
  }
}

TEST_F(FindMpirun, SaysHowToGetOne) {
  setenv("PATH", folder_.c_str(), 1);
  try {
    find_mpirun("mpirun");
    FAIL() << "not refused";
  } catch (const runtime::Error& error) {
    EXPECT_EQ(error.code(), runtime::ExitCode::kSetup);
    EXPECT_THAT(error.what(), HasSubstr("openmpi-bin"));
  }
}

}  // namespace
}  // namespace longship::launcher
