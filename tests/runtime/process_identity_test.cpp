#include "runtime/process_identity.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <regex>

namespace longship::runtime {
namespace {

TEST(ProcessIdentity, KnowsThisProcess) {
  const ProcessIdentity self = this_process();
  EXPECT_EQ(self.pid, getpid());
  EXPECT_EQ(self.host, host_name());
  EXPECT_GT(self.start_ticks, 0);
  EXPECT_EQ(self, this_process());
  EXPECT_TRUE(is_running(self));
  EXPECT_TRUE(shares_pids(self, self));
}

TEST(ProcessIdentity, TellsAPidThatWasGivenToAnotherProcess) {
  ProcessIdentity earlier = this_process();
  earlier.start_ticks -= 1;
  EXPECT_FALSE(is_running(earlier));
}

TEST(ProcessIdentity, KnowsThatAChildHasEnded) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    pause();
    _exit(0);
  }
  ProcessIdentity process = this_process();
  process.pid = child;
  process.start_ticks = 0;  // not recorded
  EXPECT_TRUE(is_running(process));
  kill(child, SIGKILL);
  siginfo_t info{};
  waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT);
  EXPECT_FALSE(is_running(process)) << "a zombie runs no more";
  waitpid(child, nullptr, 0);
  EXPECT_FALSE(is_running(process));
}

TEST(ProcessIdentity, DoesNotCompareAcrossHostsBootsAndContainers) {
  const ProcessIdentity self = this_process();
  ProcessIdentity other = self;
  other.host = "elsewhere";
  EXPECT_FALSE(shares_pids(other, self));
  other = self;
  other.boot = "another";
  EXPECT_FALSE(shares_pids(other, self));
  other = self;
  other.pid_namespace = "pid:[1]";
  EXPECT_FALSE(shares_pids(other, self));
}

TEST(UtcNow, IsIso8601) {
  EXPECT_TRUE(std::regex_match(utc_now(), std::regex(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)")));
}

}  // namespace
}  // namespace longship::runtime
