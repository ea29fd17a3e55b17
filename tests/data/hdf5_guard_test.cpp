#include "data/hdf5_guard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <stdexcept>
#include <thread>

#include "data/error.h"

namespace longship::data {
namespace {

TEST(GuardedHdf5, RunsAndHandsExceptionsOn) {
  int calls = 0;
  guarded_hdf5("file.h5", [&] { ++calls; });
  EXPECT_EQ(calls, 1);
  EXPECT_THROW(guarded_hdf5("file.h5", [] { throw DataError("odd"); }), DataError);
  EXPECT_FALSE(hdf5_is_stuck());
}

TEST(GuardedHdf5, LeavesTheProcessAsItWas) {
  struct sigaction before = {};
  struct sigaction after = {};
  sigaction(SIGSEGV, nullptr, &before);
  guarded_hdf5("file.h5", [] {});
  sigaction(SIGSEGV, nullptr, &after);
  EXPECT_EQ(before.sa_handler, after.sa_handler);
}

TEST(GuardedHdf5DeathTest, ABrokenAccessEndsWithTheNameOfTheFile) {
  EXPECT_EXIT(guarded_hdf5("a b/file.h5", [] { std::raise(SIGSEGV); }), testing::ExitedWithCode(3),
              "longship: error: a b/file.h5: HDF5 failed inside while reading it");
  EXPECT_EXIT(
      {
        tell_broken_hdf5(false);
        guarded_hdf5("file.h5", [] { std::raise(SIGBUS); });
      },
      testing::ExitedWithCode(3), "^$");
}

// A thread that goes around in a circle, as HDF5 does in some damaged files, is left behind.
TEST(GuardedHdf5DeathTest, AThreadThatComputesWithoutReadingIsLeftBehind) {
  EXPECT_EXIT(
      {
        std::string told;
        try {
          guarded_hdf5(
              "file.h5",
              [] {
                volatile uint64_t turns = 0;
                for (;;) turns = turns + 1;
              },
              std::chrono::seconds(1));
        } catch (const DataError& error) {
          told = error.what();
        }
        std::fputs((told + (hdf5_is_stuck() ? " (stuck)" : "")).c_str(), stderr);
        _exit(7);
      },
      testing::ExitedWithCode(7),
      "file.h5: HDF5 computes for 1 s without reading on: the file is damaged; copy or write it "
      "again .stuck.");
}

// One that waits, as for a slow file system, is waited for.
TEST(GuardedHdf5, AThreadThatWaitsIsWaitedFor) {
  bool ended = false;
  guarded_hdf5(
      "file.h5",
      [&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(2500));
        ended = true;
      },
      std::chrono::seconds(1));
  EXPECT_TRUE(ended);
  EXPECT_FALSE(hdf5_is_stuck());
}

}  // namespace
}  // namespace longship::data
