#include "data/hdf5_guard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <stdexcept>

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

}  // namespace
}  // namespace longship::data
