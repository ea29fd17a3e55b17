#include "launcher/session.h"

#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <string>

#include "launcher/cpu_affinity.h"
#include "single_process.h"

namespace longship::launcher {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

// A process without a launcher, on CPUs. MPI's part is tested in tests/multirank.
class SessionTest : public SingleProcess {
 protected:
  void SetUp() override {
    SingleProcess::SetUp();
    unsetenv("OMP_NUM_THREADS");
  }
};

TEST_F(SessionTest, WithoutALauncherThereIsOneRankAndNoMpi) {
  EXPECT_EQ(rank_by_environment(), 0);
  const auto session = start_session(seconds(10));
  EXPECT_EQ(session->mpi, nullptr);
  EXPECT_EQ(session->host->size(), 1);
  EXPECT_EQ(session->votes->size(), 1);
  EXPECT_EQ(session->local_size, 1);
  EXPECT_FALSE(session->host_name.empty());
  EXPECT_EQ(at::get_num_threads(), static_cast<int>(allowed_cpus().size()));
}

TEST_F(SessionTest, TheVariableForThreadsWins) {
  setenv("OMP_NUM_THREADS", "1", 1);
  at::set_num_threads(1);
  start_session(seconds(10));
  EXPECT_EQ(at::get_num_threads(), 1);
}

TEST_F(SessionTest, OneRankOnCpusSumsLocally) {
  for (const std::string backend : {"auto", "mpi"}) {
    const auto session = start_session(seconds(10));
    bind_device(*session, backend);
    connect_gradients(*session, backend, seconds(10));
    EXPECT_TRUE(session->device.is_cpu());
    EXPECT_EQ(session->gradients->backend(), "local") << backend;
    EXPECT_EQ(session->gradients->size(), 1);
  }
}

TEST_F(SessionTest, NcclWithoutAGpuIsRefused) {
  const auto session = start_session(seconds(10));
  bind_device(*session, "nccl");
  EXPECT_THAT(setup_error([&] { connect_gradients(*session, "nccl", seconds(10)); }),
              HasSubstr("comm.backend=nccl needs a GPU"));
  EXPECT_THAT(setup_error([&] { bind_device(*session, "gloo"); }),
              HasSubstr("comm.backend=gloo is not known"));
}

TEST_F(SessionTest, TasksOfSrunWithoutPmiAreRefusedBeforeMpiStarts) {
  setenv("SLURM_STEP_ID", "0", 1);
  setenv("SLURM_STEP_NUM_TASKS", "4", 1);
  setenv("SLURM_PROCID", "2", 1);
  EXPECT_EQ(rank_by_environment(), 2);
  EXPECT_THAT(setup_error([] { start_session(seconds(10)); }),
              HasSubstr("The launcher says 4 tasks (SLURM_STEP_NUM_TASKS), MPI says 1"));
}

}  // namespace
}  // namespace longship::launcher
