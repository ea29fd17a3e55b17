#include "runtime/error.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <new>
#include <stdexcept>

#include "comm/error.h"
#include "data/error.h"

namespace longship::runtime {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(ExitCodeOf, KnowsEveryKindOfError) {
  EXPECT_EQ(static_cast<int>(exit_code_of(UsageError("x"))), 2);
  EXPECT_EQ(static_cast<int>(exit_code_of(ConfigError("x"))), 3);
  EXPECT_EQ(static_cast<int>(exit_code_of(data::DataError("x"))), 3);
  EXPECT_EQ(static_cast<int>(exit_code_of(CheckpointError("x"))), 4);
  EXPECT_EQ(static_cast<int>(exit_code_of(comm::CommError(comm::CommError::Kind::kSetup, "x"))), 5);
  EXPECT_EQ(static_cast<int>(exit_code_of(Error(ExitCode::kDiverged, "x"))), 6);
  EXPECT_EQ(static_cast<int>(exit_code_of(std::bad_alloc())), 3);
  EXPECT_EQ(static_cast<int>(exit_code_of(std::logic_error("x"))), 70);
  EXPECT_EQ(static_cast<int>(exit_code_of(Error(ExitCode::kStopped, "x"))), 75);
  EXPECT_EQ(static_cast<int>(exit_code_of(comm::CommError(comm::CommError::Kind::kPeer, "x"))), 86);
}

TEST(MessageOf, LeavesOutBacktracesAndSaysWhenMemoryRanOut) {
  EXPECT_EQ(message_of(UsageError("x")), "x");
  EXPECT_THAT(message_of(std::bad_alloc()),
              AllOf(HasSubstr("memory ran out"), HasSubstr("more memory")));
  try {
    at::empty({int64_t{1} << 60}, at::kByte);
    FAIL() << "nothing was thrown";
  } catch (const std::exception& error) {
    EXPECT_EQ(exit_code_of(error), ExitCode::kInput);
    EXPECT_THAT(message_of(error), AllOf(HasSubstr("memory ran out"), Not(HasSubstr("frame #")),
                                         HasSubstr("1152921504606846976 bytes")));
  }
  try {
    at::ones({2, 3}).mm(at::ones({2, 3}));
    FAIL() << "nothing was thrown";
  } catch (const std::exception& error) {
    EXPECT_EQ(exit_code_of(error), ExitCode::kInternal);
    EXPECT_THAT(message_of(error), AllOf(HasSubstr("2x3"), Not(HasSubstr("frame #"))));
  }
}

}  // namespace
}  // namespace longship::runtime
