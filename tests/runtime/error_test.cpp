#include "runtime/error.h"

#include <gtest/gtest.h>

#include <new>
#include <stdexcept>

#include "comm/error.h"
#include "data/error.h"

namespace longship::runtime {
namespace {

TEST(ExitCodeOf, KnowsEveryKindOfError) {
  EXPECT_EQ(static_cast<int>(exit_code_of(UsageError("x"))), 2);
  EXPECT_EQ(static_cast<int>(exit_code_of(ConfigError("x"))), 3);
  EXPECT_EQ(static_cast<int>(exit_code_of(data::DataError("x"))), 3);
  EXPECT_EQ(static_cast<int>(exit_code_of(CheckpointError("x"))), 4);
  EXPECT_EQ(static_cast<int>(exit_code_of(comm::CommError(comm::CommError::Kind::kSetup, "x"))), 5);
  EXPECT_EQ(static_cast<int>(exit_code_of(Error(ExitCode::kDiverged, "x"))), 6);
  EXPECT_EQ(static_cast<int>(exit_code_of(std::bad_alloc())), 70);
  EXPECT_EQ(static_cast<int>(exit_code_of(std::logic_error("x"))), 70);
  EXPECT_EQ(static_cast<int>(exit_code_of(Error(ExitCode::kStopped, "x"))), 75);
  EXPECT_EQ(static_cast<int>(exit_code_of(comm::CommError(comm::CommError::Kind::kPeer, "x"))), 86);
}

}  // namespace
}  // namespace longship::runtime
