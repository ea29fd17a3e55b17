#include "runtime/stop_signals.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

namespace longship::runtime {
namespace {

volatile std::sig_atomic_t others = 0;
void count_other(int) {
  others = others + 1;
}

TEST(StopSignals, NotesEachOfThem) {
  for (const int number : {SIGUSR1, SIGTERM, SIGINT, SIGHUP}) {
    const StopSignals signals;
    EXPECT_EQ(StopSignals::received(), 0);
    std::raise(number);
    EXPECT_EQ(StopSignals::received(), number);
  }
}

TEST(StopSignals, ALostTerminalIsIgnoredWhereItWasBefore) {
  const auto former = std::signal(SIGHUP, SIG_IGN);
  {
    const StopSignals signals;
    std::raise(SIGHUP);
    EXPECT_EQ(StopSignals::received(), 0);
  }
  EXPECT_EQ(std::signal(SIGHUP, former), SIG_IGN);
}

TEST(StopSignals, AnInnerOneKeepsWhatCame) {
  const StopSignals outer;
  std::raise(SIGUSR1);
  {
    const StopSignals inner;
    EXPECT_EQ(StopSignals::received(), SIGUSR1);
  }
  EXPECT_EQ(StopSignals::received(), SIGUSR1);
}

// As a program inherits them from a launcher that waits for them.
TEST(StopSignals, TheyComeThroughWhereTheyWereBlocked) {
  sigset_t both;
  sigset_t before;
  sigemptyset(&both);
  sigaddset(&both, SIGUSR1);
  sigaddset(&both, SIGTERM);
  ASSERT_EQ(pthread_sigmask(SIG_BLOCK, &both, &before), 0);
  std::raise(SIGTERM);
  {
    const StopSignals signals;
    EXPECT_EQ(StopSignals::received(), SIGTERM) << "it came before and was waiting";
    std::raise(SIGUSR1);
    EXPECT_EQ(StopSignals::received(), SIGUSR1);
  }
  sigset_t after;
  ASSERT_EQ(pthread_sigmask(SIG_SETMASK, &before, &after), 0);
  EXPECT_EQ(sigismember(&after, SIGUSR1), 1);
  EXPECT_EQ(sigismember(&after, SIGTERM), 1);
}

// A handler on the normal stack would overwrite what oneDNN keeps there.
TEST(StopSignals, HandlersHaveAStackOfTheirOwn) {
  const StopSignals signals;
  stack_t stack = {};
  ASSERT_EQ(sigaltstack(nullptr, &stack), 0);
  EXPECT_EQ(stack.ss_flags & SS_DISABLE, 0);
  struct sigaction action = {};
  for (const int number : {SIGUSR1, SIGTERM, SIGINT}) {
    ASSERT_EQ(sigaction(number, nullptr, &action), 0);
    EXPECT_NE(action.sa_flags & SA_ONSTACK, 0) << number;
  }
}

TEST(StopSignals, RestoresTheFormerHandler) {
  const auto former = std::signal(SIGUSR1, count_other);
  others = 0;
  {
    const StopSignals signals;
    std::raise(SIGUSR1);
    EXPECT_EQ(others, 0);
  }
  std::raise(SIGUSR1);
  EXPECT_EQ(others, 1);
  std::signal(SIGUSR1, former);
}

TEST(StopSignalsDeathTest, ASecondInterruptEndsTheProcess) {
  EXPECT_EXIT(
      {
        const StopSignals signals;
        std::raise(SIGINT);
        if (StopSignals::received() != SIGINT) _exit(1);
        std::raise(SIGINT);
        _exit(2);
      },
      testing::KilledBySignal(SIGINT), "");
}

TEST(StopSignalsDeathTest, ASecondInterruptEndsTheProcessAlsoInAnInnerOne) {
  EXPECT_EXIT(
      {
        const StopSignals outer;
        std::raise(SIGINT);
        const StopSignals inner;
        if (StopSignals::received() != SIGINT) _exit(1);
        std::raise(SIGINT);
        _exit(2);
      },
      testing::KilledBySignal(SIGINT), "");
}

TEST(StopSignalsDeathTest, ASecondTerminationDoesNot) {
  EXPECT_EXIT(
      {
        const StopSignals signals;
        std::raise(SIGTERM);
        std::raise(SIGTERM);
        _exit(StopSignals::received() == SIGTERM ? 42 : 1);
      },
      testing::ExitedWithCode(42), "");
}

}  // namespace
}  // namespace longship::runtime
