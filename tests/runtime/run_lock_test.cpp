#include "runtime/run_lock.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "config_support.h"
#include "temporary_folder.h"

namespace longship::runtime {
namespace {

using longship::tests::config_error;
using longship::tests::TemporaryFolder;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

ProcessIdentity elsewhere() {
  ProcessIdentity process = this_process();
  process.host = "node17";
  process.pid = 4711;
  return process;
}

// Makes a file look as if it had been written so many seconds ago.
void make_older(const std::string& path, time_t seconds) {
  std::array<timespec, 2> stamps{};
  clock_gettime(CLOCK_REALTIME, &stamps[1]);
  stamps[1].tv_sec -= seconds;
  stamps[0] = stamps[1];
  ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), stamps.data(), 0), 0);
}

// Leaves the lock of `process` behind, as a job does that is killed.
void leave_lock(const std::string& folder, const ProcessIdentity& process) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const RunLock lock(folder, process);
    _exit(0);  // without destructors
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_EQ(status, 0);
}

TEST(RunLock, HoldsTheFolderAndReleasesIt) {
  const TemporaryFolder folder;
  {
    const RunLock lock(folder.path().string());
    EXPECT_EQ(lock.note(), "");
    const auto holder = read_lock(folder / ".lock");
    ASSERT_TRUE(holder.has_value());
    EXPECT_EQ(holder->process, this_process());
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(RunLock, RefusesASecondJobNamingTheHolder) {
  const TemporaryFolder folder;
  ProcessIdentity self = this_process();
  self.slurm_job = "991";
  const RunLock lock(folder.path().string(), self);
  const std::string message =
      config_error([&] { const RunLock second(folder.path().string(), elsewhere()); });
  EXPECT_THAT(message, AllOf(HasSubstr(folder.path().string()),
                             HasSubstr("process " + std::to_string(getpid())),
                             HasSubstr("host " + host_name()), HasSubstr("Slurm job 991"),
                             HasSubstr("since 20"), HasSubstr("run.name")));
  EXPECT_EQ(read_lock(folder / ".lock")->process, self);
}

TEST(RunLock, TakesOverFromADeadProcessOfThisHostAtOnce) {
  const TemporaryFolder folder;
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const RunLock lock(folder.path().string());
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  const RunLock lock(folder.path().string());
  EXPECT_THAT(lock.note(),
              AllOf(HasSubstr("took over"), HasSubstr("process " + std::to_string(child)),
                    HasSubstr("which has ended")));
  EXPECT_EQ(read_lock(folder / ".lock")->process.pid, getpid());
}

TEST(RunLock, TakesASilentHolderOfAnotherHostForDead) {
  const TemporaryFolder folder;
  leave_lock(folder.path().string(), elsewhere());
  EXPECT_THAT(config_error([&] { const RunLock lock(folder.path().string()); }),
              AllOf(HasSubstr("process 4711 on host node17"), HasSubstr("is free in 12")));
  make_older(folder / ".lock", 60);
  EXPECT_THAT(config_error([&] { const RunLock lock(folder.path().string()); }),
              HasSubstr("in use by"));
  make_older(folder / ".lock", 130);
  const RunLock lock(folder.path().string());
  EXPECT_THAT(lock.note(), HasSubstr("host node17"));
}

// Such a process is suspended or slow; it will write again.
TEST(RunLock, NeverTakesALivingProcessOfThisHostForDead) {
  const TemporaryFolder folder;
  const RunLock lock(folder.path().string());
  make_older(folder / ".lock", 3600);
  EXPECT_THAT(config_error([&] { const RunLock second(folder.path().string()); }),
              AllOf(HasSubstr("in use by"), Not(HasSubstr("is free in"))));
}

TEST(RunLock, KnowsThatARequeuedSlurmJobHasEnded) {
  const TemporaryFolder folder;
  ProcessIdentity first = elsewhere();
  first.slurm_job = "77";
  leave_lock(folder.path().string(), first);
  ProcessIdentity same_life = this_process();
  same_life.slurm_job = "77";
  EXPECT_THAT(config_error([&] { const RunLock lock(folder.path().string(), same_life); }),
              HasSubstr("in use by"));
  ProcessIdentity next_life = same_life;
  next_life.slurm_restarts = 1;
  const RunLock lock(folder.path().string(), next_life);
  EXPECT_THAT(lock.note(), HasSubstr("Slurm job 77"));
}

TEST(RunLock, WaitsWithALockThatCannotBeRead) {
  const TemporaryFolder folder;
  std::ofstream(folder / ".lock") << "{\"host\": ";
  EXPECT_THAT(config_error([&] { const RunLock lock(folder.path().string()); }),
              HasSubstr("cannot be told"));
  make_older(folder / ".lock", 130);
  const RunLock lock(folder.path().string());
  EXPECT_THAT(lock.note(), HasSubstr("cannot be read"));
}

// Waits until `reached` holds; false after more than enough time.
template <typename Condition>
bool comes_true(Condition reached) {
  for (int tries = 0; tries < 3000; ++tries) {
    if (reached()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

constexpr std::chrono::milliseconds kQuick{10};

TEST(RunLock, ShowsThatItLives) {
  const TemporaryFolder folder;
  const RunLock lock(folder.path().string(), elsewhere(), kQuick);
  make_older(folder / ".lock", 130);
  struct stat file {};
  EXPECT_TRUE(comes_true([&] {
    return stat((folder / ".lock").c_str(), &file) == 0 && time(nullptr) - file.st_mtim.tv_sec < 60;
  }));
  EXPECT_TRUE(lock.refresh());
}

TEST(RunLock, KnowsWhenAnotherJobTookItAndLeavesThatOne) {
  const TemporaryFolder folder;
  {
    const RunLock lock(folder.path().string(), this_process(), kQuick);
    std::filesystem::remove(folder / ".lock");
    leave_lock(folder.path().string(), elsewhere());
    EXPECT_TRUE(comes_true([&] { return !lock.refresh(); }));
  }
  EXPECT_EQ(read_lock(folder / ".lock")->process.host, "node17");
}

TEST(RunLock, IsNotReleasedByAForkedChild) {
  const TemporaryFolder folder;
  const RunLock lock(folder.path().string());
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    lock.~RunLock();
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(std::filesystem::exists(folder / ".lock"));
}

TEST(RunLock, LetsExactlyOneOfManyIn) {
  const TemporaryFolder folder;
  leave_lock(folder.path().string(), elsewhere());
  make_older(folder / ".lock", 130);
  std::array<int, 2> go{};
  ASSERT_EQ(pipe(go.data()), 0);
  constexpr int kJobs = 8;
  std::vector<pid_t> children;
  for (int job = 0; job < kJobs; ++job) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      close(go[1]);
      char byte = 0;
      (void)!read(go[0], &byte, 1);  // returns at the end of the file, for all at once
      try {
        const RunLock lock(folder.path().string());
        pause();  // holds until it is killed
      } catch (const ConfigError&) {
        _exit(3);
      }
      _exit(1);
    }
    children.push_back(child);
  }
  close(go[0]);
  close(go[1]);
  int refused = 0;
  for (int ended = 0; ended < kJobs - 1; ++ended) {
    int status = 0;
    ASSERT_GT(waitpid(-1, &status, 0), 0);
    refused += WIFEXITED(status) && WEXITSTATUS(status) == 3 ? 1 : 0;
  }
  EXPECT_EQ(refused, kJobs - 1);
  const auto holder = read_lock(folder / ".lock");
  ASSERT_TRUE(holder.has_value());
  EXPECT_THAT(children, testing::Contains(holder->process.pid));
  kill(static_cast<pid_t>(holder->process.pid), SIGKILL);
  waitpid(static_cast<pid_t>(holder->process.pid), nullptr, 0);
}

TEST(Describe, NamesHostPidAndJob) {
  LockHolder holder;
  holder.process.host = "n1";
  holder.process.pid = 12;
  holder.started = "2026-03-01T12:00:00Z";
  EXPECT_EQ(describe(holder), "process 12 on host n1, since 2026-03-01T12:00:00Z");
  holder.process.slurm_job = "99";
  EXPECT_EQ(describe(holder), "process 12 on host n1 (Slurm job 99), since 2026-03-01T12:00:00Z");
}

}  // namespace
}  // namespace longship::runtime
