#include "launcher/parallel_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "comm/error.h"
#include "data/error.h"
#include "runtime/agreement.h"
#include "runtime/error.h"
#include "single_process.h"

namespace longship::launcher {
namespace {

using std::chrono::seconds;

// Without a launcher; what ranks do together is tested under mpirun in tests/multirank.
class ParallelCommand : public SingleProcess {
 protected:
  // What is printed when the body ends with this exception, and the exit code.
  template <typename Thrown>
  int ends_with(const Thrown& thrown) {
    testing::internal::CaptureStderr();
    const int code = run_parallel(seconds(10), [&](Session&) -> int { throw thrown; });
    printed_ = testing::internal::GetCapturedStderr();
    return code;
  }
  std::string printed_;
};

TEST_F(ParallelCommand, ReturnsWhatTheBodyReturns) {
  int ranks = 0;
  EXPECT_EQ(run_parallel(seconds(10),
                         [&](Session& session) {
                           ranks = session.host->size();
                           return 75;
                         }),
            75);
  EXPECT_EQ(ranks, 1);
}

TEST_F(ParallelCommand, TurnsErrorsIntoOneLineAndTheirCode) {
  EXPECT_EQ(ends_with(runtime::AgreedError(runtime::ExitCode::kDiverged, "it diverged")), 6);
  EXPECT_EQ(printed_, "longship: error: it diverged\n");
  EXPECT_EQ(ends_with(runtime::CheckpointError("it is damaged")), 4);
  EXPECT_EQ(printed_, "longship: error: it is damaged\n");
  EXPECT_EQ(ends_with(data::DataError("no such file")), 3);
  EXPECT_EQ(ends_with(comm::CommError(comm::CommError::Kind::kPeer, "rank 1 is gone")), 86);
  EXPECT_EQ(ends_with(comm::CommError(comm::CommError::Kind::kSetup, "no GPU")), 5);
  EXPECT_EQ(ends_with(std::runtime_error("odd")), 70);
  EXPECT_EQ(printed_, "longship: error: odd\n");
}

TEST_F(ParallelCommand, ABackendThatCannotBeSetUpIsAnAgreedError) {
  testing::internal::CaptureStderr();
  const int code = run_parallel(seconds(10), [](Session& session) {
    connect_devices(session, "nccl", seconds(10));
    return 0;
  });
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::StartsWith("longship: error: comm.backend=nccl needs a GPU"));
  EXPECT_EQ(code, 5);
}

TEST_F(ParallelCommand, ConnectsTheDevices) {
  EXPECT_EQ(run_parallel(seconds(10),
                         [](Session& session) {
                           connect_devices(session, "auto", seconds(10));
                           return session.gradients->size();
                         }),
            1);
}

}  // namespace
}  // namespace longship::launcher
