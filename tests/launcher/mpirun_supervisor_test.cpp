#include "launcher/mpirun_supervisor.h"

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
#include <functional>
#include <iterator>
#include <string>
#include <system_error>
#include <thread>

namespace longship::launcher {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;
namespace fs = std::filesystem;

TEST(RestartReason, FollowsTheExitCode) {
  const milliseconds long_run(60000);
  const milliseconds start(10000);
  for (const int code : {75, 86, 128 + SIGKILL, 128 + SIGSEGV}) {
    EXPECT_NE(restart_reason(code, false, long_run, start), "") << code;
    EXPECT_EQ(restart_reason(code, true, long_run, start), "") << code;
  }
  for (const int code : {0, 2, 3, 4, 5, 6, 70}) {
    EXPECT_EQ(restart_reason(code, false, long_run, start), "") << code;
  }
  EXPECT_THAT(restart_reason(1, false, long_run, start), HasSubstr("lost a host"));
  EXPECT_EQ(restart_reason(1, false, milliseconds(500), start), "");
}

// supervise() in a process of its own, which gets the signals, with a script that plays mpirun. The
// script finds an empty folder in $D.
class SuperviseTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = fs::temp_directory_path() / "longship-supervise-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }

  void start(const std::string& body, int max_restarts = 0) {
    const fs::path script = folder_ / "mpirun";
    std::ofstream(script) << "#!/bin/bash\n" << body;
    chmod(script.c_str(), 0755);
    process_ = fork();
    ASSERT_GE(process_, 0);
    if (process_ == 0) _exit(run(script, max_restarts));
  }

  // Waits until the script made a file of this name.
  void await(const std::string& name) const {
    for (int i = 0; i < 3000 && !fs::exists(folder_ / name); ++i) {
      std::this_thread::sleep_for(milliseconds(10));
    }
    ASSERT_TRUE(fs::exists(folder_ / name)) << name;
  }

  int exit_code() const {
    int status = 0;
    waitpid(process_, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  std::string text(const std::string& name) const {
    std::ifstream file(folder_ / name);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

  void send(int number) const { ASSERT_EQ(kill(process_, number), 0); }

  fs::path folder_;
  pid_t process_ = 0;

 private:
  int run(const fs::path& script, int max_restarts) {
    const BlockedSignals blocked;
    SupervisorOptions options;
    options.command = {script, "first"};
    options.restarted = {script, "again"};
    options.environment = {"PATH=/usr/bin:/bin", "D=" + folder_.string()};
    options.max_restarts = max_restarts;
    options.restart_delay = milliseconds(10);
    options.kill_patience = milliseconds(300);
    options.start_time = milliseconds(60000);
    options.say = [this](const std::string& line) {
      std::ofstream(folder_ / "said", std::ios::app) << line << "\n";
    };
    return supervise(options);
  }
};

TEST_F(SuperviseTest, ExitCodesComeBackUnharmed) {
  for (const int code : {0, 1, 3, 6, 75, 86, 137}) {
    start("exit " + std::to_string(code));
    EXPECT_EQ(exit_code(), code);
  }
}

TEST_F(SuperviseTest, ASignalThatEndsMpirunItselfGivesItsNumber) {
  start("kill -SEGV $$; sleep 60");
  EXPECT_EQ(exit_code(), 128 + SIGSEGV);
}

TEST_F(SuperviseTest, StopSignalsReachMpirunAsUsr1) {
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGUSR1}) {
    start(
        "trap 'echo usr1 >> $D/got; exit 75' USR1; trap 'echo other >> $D/got' TERM INT HUP\n"
        "touch $D/ready; while :; do sleep 0.02; done",
        5);
    await("ready");
    send(number);
    EXPECT_EQ(exit_code(), 75) << number;  // asked to stop: not restarted
    EXPECT_EQ(text("got"), "usr1\n") << number;
    fs::remove(folder_ / "got");
    fs::remove(folder_ / "ready");
  }
}

TEST_F(SuperviseTest, ARequestThatMeetsALoadingRankIsAnEarlyStop) {
  // The rank has no handler yet, so the signal ends it.
  start("touch $D/ready; trap 'exit 138' USR1; while :; do sleep 0.02; done");
  await("ready");
  send(SIGTERM);
  EXPECT_EQ(exit_code(), 75);
  EXPECT_THAT(text("said"), HasSubstr("stopped before training began"));
}

TEST_F(SuperviseTest, MpirunHasItsOwnGroupAndNoTerminal) {
  start(
      "ps -o pgid= -p $$ | tr -d ' ' > $D/group; echo $$ > $D/pid\n"
      "readlink /proc/self/fd/0 > $D/stdin");
  EXPECT_EQ(exit_code(), 0);
  EXPECT_EQ(text("group"), text("pid"));
  EXPECT_EQ(text("stdin"), "/dev/null\n");
}

TEST_F(SuperviseTest, ASecondInterruptEndsEverythingAtOnce) {
  start(
      "trap 'touch $D/usr1' USR1; trap '' TERM\n"
      "sleep 1000 & echo $! > $D/rank; touch $D/ready; while :; do sleep 0.02; done");
  await("ready");
  send(SIGINT);
  await("usr1");
  send(SIGINT);
  EXPECT_EQ(exit_code(), 128 + SIGINT);
  EXPECT_THAT(text("said"), HasSubstr("ending all ranks now"));
  EXPECT_EQ(kill(std::stoi(text("rank")), 0), -1);
  EXPECT_EQ(errno, ESRCH);
}

// Real ranks lead process groups of their own, so a signal for mpirun's group does not reach them.
TEST_F(SuperviseTest, NoRankOutlivesAKilledMpirun) {
  start("setsid sleep 1000 & echo $! > $D/rank; touch $D/ready; kill -KILL $$");
  EXPECT_EQ(exit_code(), 128 + SIGKILL);
  const pid_t rank = std::stoi(text("rank"));
  EXPECT_EQ(kill(rank, 0), -1);
  EXPECT_EQ(errno, ESRCH);
}

TEST_F(SuperviseTest, RestartsUntilItIsDone) {
  start("echo $1 >> $D/starts; [ $(wc -l < $D/starts) -lt 3 ] && exit 86; exit 0", 5);
  EXPECT_EQ(exit_code(), 0);
  EXPECT_EQ(text("starts"), "first\nagain\nagain\n");
  EXPECT_THAT(text("said"), HasSubstr("a peer or the network failed (86); restart 2 of 5"));
}

TEST_F(SuperviseTest, StopsAfterTheAllowedRestarts) {
  start("echo $1 >> $D/starts; exit 137", 2);
  EXPECT_EQ(exit_code(), 137);
  EXPECT_EQ(text("starts"), "first\nagain\nagain\n");
  EXPECT_THAT(text("said"), HasSubstr("signal 9 ended a rank (137); not started again after 2"));
}

TEST_F(SuperviseTest, NeverRestartsOnWhatWouldFailAgain) {
  start("echo $1 >> $D/starts; exit 3", 5);
  EXPECT_EQ(exit_code(), 3);
  EXPECT_EQ(text("starts"), "first\n");
}

TEST(Supervise, SaysWhenMpirunCannotBeStarted) {
  const BlockedSignals blocked;
  SupervisorOptions options;
  options.command = {"/nonexistent/mpirun"};
  options.restarted = options.command;
  options.say = [](const std::string&) {};
  try {
    supervise(options);
    FAIL() << "started";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code().value(), ENOENT);
    EXPECT_THAT(error.what(), HasSubstr("/nonexistent/mpirun"));
  }
}

}  // namespace
}  // namespace longship::launcher
