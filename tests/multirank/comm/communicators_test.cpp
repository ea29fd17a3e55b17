#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "comm/error.h"
#include "comm/nccl_communicator.h"
#include "comm/text_collectives.h"
#include "communicator_suite.h"
#include "mpi_environment.h"

namespace longship::comm {
namespace {

using testing::HasSubstr;

std::vector<suite::Case> mpi_cases() {
  auto cases = suite::tensor_cases();
  for (const auto& host_case : suite::host_cases()) cases.push_back(host_case);
  return cases;
}

std::string case_name(const testing::TestParamInfo<suite::Case>& test) {
  return test.param.name;
}

class MpiCommunicatorOnCpu : public testing::TestWithParam<suite::Case> {};

TEST_P(MpiCommunicatorOnCpu, Holds) {
  GetParam().run(MpiEnvironment::current().communicator(), at::kCPU);
}

INSTANTIATE_TEST_SUITE_P(Suite, MpiCommunicatorOnCpu, testing::ValuesIn(mpi_cases()), case_name);

// Several ranks may share the first GPU here: their tensors are staged.
class MpiCommunicatorOnGpu : public testing::TestWithParam<suite::Case> {};

TEST_P(MpiCommunicatorOnGpu, Holds) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "there is no GPU";
  GetParam().run(MpiEnvironment::current().communicator(), at::Device(at::kCUDA, 0));
}

INSTANTIATE_TEST_SUITE_P(Suite, MpiCommunicatorOnGpu, testing::ValuesIn(suite::tensor_cases()),
                         case_name);

class NcclCommunicator : public testing::TestWithParam<suite::Case> {
 protected:
  void SetUp() override {
    const int ranks = MpiEnvironment::current().runtime().local_size();
    if (static_cast<int>(torch::cuda::device_count()) < ranks) {
      GTEST_SKIP() << "NCCL needs a GPU for each of " << ranks << " ranks";
    }
  }
};

TEST_P(NcclCommunicator, Holds) {
  auto& environment = MpiEnvironment::current();
  const int device = environment.runtime().local_rank();
  const auto communicator =
      make_nccl_communicator(environment.communicator(), device, std::chrono::seconds(60));
  EXPECT_EQ(communicator->backend(), "nccl");
  EXPECT_TRUE(communicator->capturable());
  communicator->barrier();
  GetParam().run(*communicator, at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(device)));
}

INSTANTIATE_TEST_SUITE_P(Suite, NcclCommunicator, testing::ValuesIn(suite::tensor_cases()),
                         case_name);

TEST(NcclSetup, RefusesTwoRanksOnOneGpu) {
  auto& environment = MpiEnvironment::current();
  if (!torch::cuda::is_available()) GTEST_SKIP() << "there is no GPU";
  if (environment.runtime().size() < 2) GTEST_SKIP() << "takes two ranks";
  try {
    make_nccl_communicator(environment.communicator(), 0, std::chrono::seconds(60));
    ADD_FAILURE() << "two ranks were let on one GPU";
  } catch (const CommError& error) {
    EXPECT_EQ(error.kind(), CommError::Kind::kSetup);
    EXPECT_THAT(error.what(), HasSubstr("ranks 0 and 1 both use GPU-"));
    EXPECT_THAT(error.what(), HasSubstr("comm.backend=mpi"));
  }
}

TEST(NcclSetup, TellsItsVersion) {
  EXPECT_THAT(nccl_version(), testing::MatchesRegex("2\\.[0-9]+\\.[0-9]+"));
}

TEST(MpiRuntime, KnowsRanksAndNodes) {
  auto& environment = MpiEnvironment::current();
  const auto& runtime = environment.runtime();
  EXPECT_EQ(runtime.rank(), environment.communicator().rank());
  EXPECT_EQ(runtime.size(), environment.communicator().size());
  EXPECT_EQ(environment.communicator().backend(), "mpi");
  EXPECT_FALSE(environment.communicator().capturable());
  EXPECT_FALSE(runtime.host().empty());
  EXPECT_FALSE(runtime.library_version().empty());
  EXPECT_EQ(runtime.library_version().find('\n'), std::string::npos);

  const std::string own = std::to_string(runtime.node()) + ' ' +
                          std::to_string(runtime.local_rank()) + ' ' +
                          std::to_string(runtime.local_size());
  const auto places = all_gather_text(environment.communicator(), own);
  // No two ranks have the same place, and together they fill all nodes.
  EXPECT_EQ(std::set<std::string>(places.begin(), places.end()).size(), places.size());
  std::set<std::string> nodes;
  for (const auto& place : places) nodes.insert(place.substr(0, place.find(' ')));
  EXPECT_EQ(static_cast<int>(nodes.size()), runtime.node_count());
  EXPECT_LT(runtime.local_rank(), runtime.local_size());
  EXPECT_LT(runtime.node(), runtime.node_count());
}

TEST(MpiRuntime, CommunicatorsDoNotMix) {
  auto& environment = MpiEnvironment::current();
  const auto other = environment.runtime().make_communicator();
  // Ranks start the two in different order; each finds its own partners all the same.
  const auto first = torch::full({1001}, 1.0F);
  const auto second = torch::full({1001}, 10.0F);
  const bool swap = environment.runtime().rank() % 2 == 1;
  std::vector<std::unique_ptr<Work>> works;
  for (int i = 0; i < 2; ++i) {
    const bool take_first = (i == 0) != swap;
    works.push_back(take_first ? environment.communicator().all_reduce_async(first, ReduceOp::kSum)
                               : other->all_reduce_async(second, ReduceOp::kSum));
  }
  for (const auto& work : works) work->wait();
  const auto size = static_cast<float>(environment.runtime().size());
  EXPECT_TRUE(torch::equal(first, torch::full({1001}, size)));
  EXPECT_TRUE(torch::equal(second, torch::full({1001}, 10 * size)));
}

// Dropping a Work waits for it: its tensor may be freed or used at once.
TEST(MpiRuntime, ADroppedWorkHasEnded) {
  auto& environment = MpiEnvironment::current();
  for (int round = 0; round < 20; ++round) {
    const auto tensor = torch::ones({10007});
    environment.communicator().all_reduce_async(tensor, ReduceOp::kSum).reset();
    EXPECT_EQ(tensor.sum().item<double>(), 10007.0 * environment.runtime().size());
  }
}

}  // namespace
}  // namespace longship::comm
