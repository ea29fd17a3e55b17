#include "slurm/batch_script.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

namespace longship::slurm {
namespace {

using testing::HasSubstr;
using testing::Not;
namespace fs = std::filesystem;

std::string contents(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

TEST(BatchScript, TemplateIsTheFileInTheTree) {
  EXPECT_EQ(batch_script_template(),
            contents(fs::path(LONGSHIP_SOURCE_DIR) / "slurm/train.sbatch"));
}

TEST(BatchScript, AsksForTheSignalInTheBatchShellAndForRequeue) {
  const std::string script = batch_script_template();
  EXPECT_THAT(script, testing::StartsWith("#!/usr/bin/env bash\n"));
  EXPECT_THAT(script, HasSubstr("\n#SBATCH --signal=B:USR1@120\n"));
  EXPECT_THAT(script, HasSubstr("\n#SBATCH --requeue\n"));
  EXPECT_THAT(script, HasSubstr("\n#SBATCH --open-mode=append\n"));
}

// Runs the script with stand-ins for mpirun, longship and scontrol, in a folder whose name needs
// quotes.
class BatchScriptRun : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = fs::temp_directory_path() / "longship 'batch' XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    std::ofstream(folder_ / "train.sbatch") << batch_script_template();
    executable("longship", "exit 0");
    executable("scontrol", "echo \"$*\" > requeued");
  }
  void TearDown() override { fs::remove_all(folder_); }

  void executable(const std::string& name, const std::string& body) const {
    std::ofstream(folder_ / name) << "#!/bin/bash\n" << body << "\n";
    chmod((folder_ / name).c_str(), 0755);
  }

  // Starts it as Slurm does, with these variables and arguments.
  pid_t start(const std::vector<std::string>& variables,
              const std::vector<std::string>& arguments) const {
    const pid_t child = fork();
    if (child != 0) return child;
    std::vector<std::string> words{"bash", "train.sbatch"};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<std::string> environment{"PATH=" + folder_.string() + ":/usr/bin:/bin",
                                         "LONGSHIP=./longship", "SLURM_JOB_ID=17"};
    environment.insert(environment.end(), variables.begin(), variables.end());
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    std::vector<char*> envp;
    for (std::string& entry : environment) envp.push_back(entry.data());
    envp.push_back(nullptr);
    if (chdir(folder_.c_str()) == 0 && freopen("log", "w", stdout) != nullptr &&
        dup2(fileno(stdout), fileno(stderr)) >= 0) {
      execve("/bin/bash", argv.data(), envp.data());
    }
    _exit(127);
  }

  static int exit_code(pid_t process) {
    int status = 0;
    waitpid(process, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  int run(const std::vector<std::string>& variables,
          const std::vector<std::string>& arguments) const {
    return exit_code(start(variables, arguments));
  }

  bool exists(const std::string& name) const { return fs::exists(folder_ / name); }
  // Whether a file comes within half a minute.
  bool appears(const std::string& name) const {
    for (int i = 0; i < 3000 && !exists(name); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return exists(name);
  }
  std::string text(const std::string& name) const { return contents(folder_ / name); }

  fs::path folder_;
};

TEST_F(BatchScriptRun, HandsItsArgumentsToTheTrainingUnharmed) {
  executable("mpirun", "printf '%s\\n' \"$@\" > words");
  EXPECT_EQ(run({}, {"a b/$x,1.yaml", "--set", "run.name=it's"}), 0);
  EXPECT_THAT(text("words"), HasSubstr("--bind-to\nnone\n./longship\ntrain\na b/$x,1.yaml\n"
                                       "--resume\nauto\n--set\nrun.name=it's\n"));
  EXPECT_FALSE(exists("requeued"));
}

TEST_F(BatchScriptRun, TakesTheConfigFromTheEnvironment) {
  executable("mpirun", "printf '%s\\n' \"$@\" > words");
  EXPECT_EQ(run({"CONFIG=run 1.yaml"}, {}), 0);
  EXPECT_THAT(text("words"), HasSubstr("train\nrun 1.yaml\n"));
}

TEST_F(BatchScriptRun, WithoutAConfigOrAProgramItIsAUsageError) {
  executable("mpirun", "touch started");
  EXPECT_EQ(run({}, {}), 2);
  EXPECT_THAT(text("log"), HasSubstr("usage: sbatch train.sbatch CONFIG.yaml"));
  fs::remove(folder_ / "longship");
  EXPECT_EQ(run({}, {"run.yaml"}), 2);
  EXPECT_THAT(text("log"), HasSubstr("export LONGSHIP="));
  EXPECT_FALSE(exists("started"));
}

TEST_F(BatchScriptRun, DaemonsGetTheCpusOfAllRanksOfTheirNode) {
  executable("mpirun", "echo \"${SRUN_CPUS_PER_TASK-unset}\" > cpus");
  EXPECT_EQ(run({"SLURM_CPUS_PER_TASK=10", "SLURM_NTASKS_PER_NODE=4"}, {"run.yaml"}), 0);
  EXPECT_EQ(text("cpus"), "40\n");
  EXPECT_EQ(run({"SLURM_CPUS_PER_TASK=10"}, {"run.yaml"}), 0);
  EXPECT_EQ(text("cpus"), "unset\n");
}

TEST_F(BatchScriptRun, RequeuesOn75Only) {
  executable("mpirun", "exit 75");
  EXPECT_EQ(run({}, {"run.yaml"}), 75);
  EXPECT_EQ(text("requeued"), "requeue 17\n");
  fs::remove(folder_ / "requeued");
  for (const int code : {0, 3, 6, 86, 137}) {
    executable("mpirun", "exit " + std::to_string(code));
    EXPECT_EQ(run({}, {"run.yaml"}), code);
    EXPECT_FALSE(exists("requeued")) << code;
  }
}

TEST_F(BatchScriptRun, RequeueCanBeTurnedOffAndEnds) {
  executable("mpirun", "exit 75");
  EXPECT_EQ(run({"REQUEUE=0"}, {"run.yaml"}), 75);
  EXPECT_EQ(run({"MAX_RESTARTS=3", "SLURM_RESTART_COUNT=3"}, {"run.yaml"}), 75);
  EXPECT_THAT(text("log"), HasSubstr("not requeued after 3 restarts"));
  EXPECT_FALSE(exists("requeued"));
  EXPECT_EQ(run({"MAX_RESTARTS=3", "SLURM_RESTART_COUNT=2"}, {"run.yaml"}), 75);
  EXPECT_TRUE(exists("requeued"));
}

TEST_F(BatchScriptRun, WithoutScontrolTheCodeStaysAndTheReasonIsSaid) {
  executable("mpirun", "exit 75");
  fs::remove(folder_ / "scontrol");
  EXPECT_EQ(run({"PATH=" + folder_.string()}, {"run.yaml"}), 75);
  EXPECT_THAT(text("log"), HasSubstr("no scontrol here"));
}

TEST_F(BatchScriptRun, SignalsReachMpirunAndItsCodeComesBack) {
  executable("mpirun",
             "trap 'echo usr1 >> got; sleep 0.2; exit 75' USR1; touch ready\n"
             "while :; do sleep 0.02; done");
  for (const int number : {SIGUSR1, SIGTERM}) {
    const pid_t process = start({}, {"run.yaml"});
    ASSERT_TRUE(appears("ready"));
    kill(process, number);
    EXPECT_EQ(exit_code(process), 75) << number;
    EXPECT_EQ(text("got"), "usr1\n") << number;
    EXPECT_THAT(text("log"), HasSubstr("asked to stop"));
    // TERM comes from a user who wants an end.
    EXPECT_EQ(exists("requeued"), number == SIGUSR1);
    for (const std::string name : {"ready", "got", "requeued"}) fs::remove(folder_ / name);
  }
}

TEST_F(BatchScriptRun, ASignalThatMeetsRanksBeingLoadedIsAnEarlyStop) {
  executable("mpirun", "trap 'exit 138' USR1; touch ready; while :; do sleep 0.02; done");
  const pid_t process = start({}, {"run.yaml"});
  ASSERT_TRUE(appears("ready"));
  kill(process, SIGUSR1);
  EXPECT_EQ(exit_code(process), 75);
  EXPECT_TRUE(exists("requeued"));
  fs::remove(folder_ / "requeued");
  executable("mpirun", "exit 138");
  EXPECT_EQ(run({}, {"run.yaml"}), 138);
  EXPECT_FALSE(exists("requeued"));
}

TEST_F(BatchScriptRun, ASignalThatChangesNothingDoesNotHideTheCode) {
  executable("mpirun",
             "trap 'touch got' USR1; touch ready; until [ -e go ]; do sleep 0.02; done; exit 6");
  const pid_t process = start({}, {"run.yaml"});
  ASSERT_TRUE(appears("ready"));
  kill(process, SIGUSR1);
  ASSERT_TRUE(appears("got"));
  std::ofstream(folder_ / "go") << "";
  EXPECT_EQ(exit_code(process), 6);
  EXPECT_FALSE(exists("requeued"));
}

}  // namespace
}  // namespace longship::slurm
