#include "runtime/fault_injection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <stdexcept>

#include "runtime/error.h"

namespace longship::runtime {
namespace {

class FaultInjectionTest : public testing::Test {
 protected:
  void TearDown() override { unsetenv("LONGSHIP_FAULT"); }
  static FaultInjection with(const char* text, int rank) {
    setenv("LONGSHIP_FAULT", text, 1);
    return FaultInjection::from_environment(rank);
  }
};

TEST_F(FaultInjectionTest, WithoutTheVariableNothingMatches) {
  unsetenv("LONGSHIP_FAULT");
  const FaultInjection fault = FaultInjection::from_environment(0);
  EXPECT_FALSE(fault.overflow(1));
  EXPECT_NO_THROW(fault.strike(1));
}

TEST_F(FaultInjectionTest, OverflowsOnOneRankInOneStep) {
  const FaultInjection fault = with("overflow:rank=2,step=30", 2);
  EXPECT_FALSE(fault.overflow(29));
  EXPECT_TRUE(fault.overflow(30));
  EXPECT_FALSE(fault.overflow(31));
  EXPECT_NO_THROW(fault.strike(30));
  EXPECT_FALSE(with("overflow:rank=2,step=30", 1).overflow(30));
}

TEST_F(FaultInjectionTest, ThrowsOnOneRankInOneStep) {
  const FaultInjection fault = with("throw:rank=0,step=3", 0);
  EXPECT_NO_THROW(fault.strike(2));
  EXPECT_FALSE(fault.overflow(3));
  try {
    fault.strike(3);
    FAIL() << "did not throw";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("step 3"));
  }
}

TEST_F(FaultInjectionTest, RefusesOtherTexts) {
  for (const char* text : {"", "overflow", "overflow:rank=1", "crash:rank=0,step=1",
                           "throw:rank=-1,step=1", "throw:rank=0,step=1 "}) {
    EXPECT_THROW(with(text, 0), UsageError) << text;
  }
}

}  // namespace
}  // namespace longship::runtime
