#include "comm/local_communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <tuple>

#include "comm/error.h"
#include "communicator_suite.h"
#include "rank_threads.h"

namespace longship::comm {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::vector<suite::Case> all_cases() {
  auto cases = suite::tensor_cases();
  for (const auto& host_case : suite::host_cases()) cases.push_back(host_case);
  return cases;
}

class LocalGroup : public testing::TestWithParam<std::tuple<suite::Case, int>> {};

TEST_P(LocalGroup, Holds) {
  const auto& [suite_case, size] = GetParam();
  const auto group = make_local_group(size);
  play_ranks(group, [&](Communicator& communicator) { suite_case.run(communicator, at::kCPU); });
}

std::string name_and_size(const testing::TestParamInfo<std::tuple<suite::Case, int>>& test) {
  return std::string(std::get<0>(test.param).name) + "_" + std::to_string(std::get<1>(test.param));
}

INSTANTIATE_TEST_SUITE_P(Suite, LocalGroup,
                         testing::Combine(testing::ValuesIn(all_cases()),
                                          testing::Values(1, 2, 3, 4, 7)),
                         name_and_size);

class LocalCommunicator : public testing::TestWithParam<suite::Case> {};

TEST_P(LocalCommunicator, Holds) {
  const auto communicator = make_local_communicator();
  GetParam().run(*communicator, at::kCPU);
}

std::string case_name(const testing::TestParamInfo<suite::Case>& test) {
  return test.param.name;
}

INSTANTIATE_TEST_SUITE_P(Suite, LocalCommunicator, testing::ValuesIn(all_cases()), case_name);

TEST(LocalCommunicatorDescription, SaysWhatItIs) {
  const auto alone = make_local_communicator();
  EXPECT_EQ(alone->rank(), 0);
  EXPECT_EQ(alone->size(), 1);
  EXPECT_EQ(alone->backend(), "local");
  EXPECT_TRUE(alone->capturable());
  const auto group = make_local_group(3);
  ASSERT_EQ(group.size(), 3U);
  EXPECT_EQ(group[2]->rank(), 2);
  EXPECT_EQ(group[2]->size(), 3);
  EXPECT_FALSE(group[2]->capturable());
}

TEST(LocalGroupBehaviour, SumsInTheOrderOfRanks) {
  const auto group = make_local_group(3);
  play_ranks(group, [](Communicator& communicator) {
    // (1e8 - 1e8) + 1 is 1; any order that adds 1 to 1e8 first gives 0.
    const float own[] = {1e8F, -1e8F, 1.0F};
    const auto tensor = torch::full({1}, own[communicator.rank()]);
    communicator.all_reduce(tensor, ReduceOp::kSum);
    EXPECT_EQ(tensor.item<float>(), 1.0F);
  });
}

TEST(LocalGroupBehaviour, NamesTheRanksThatDoNotCome) {
  const auto group = make_local_group(4, std::chrono::milliseconds(100));
  std::atomic<int> thrown = 0;
  play_ranks(group, [&](Communicator& communicator) {
    if (communicator.rank() == 1 || communicator.rank() == 3) return;
    try {
      communicator.all_reduce(torch::ones({5}), ReduceOp::kSum);
    } catch (const CommError& error) {
      EXPECT_EQ(error.kind(), CommError::Kind::kPeer);
      EXPECT_THAT(error.what(), AllOf(HasSubstr("all_reduce(5 x Float, sum) #0"),
                                      HasSubstr("not there yet: rank 1 3")));
      ++thrown;
    }
  });
  EXPECT_EQ(thrown, 2);
}

TEST(LocalGroupBehaviour, RefusesDifferentCollectives) {
  const auto group = make_local_group(2);
  play_ranks(group, [](Communicator& communicator) {
    const auto tensor = torch::ones({5 + communicator.rank()});
    try {
      communicator.all_reduce(tensor, ReduceOp::kSum);
      ADD_FAILURE() << "tensors of different sizes were reduced";
    } catch (const std::logic_error& error) {
      EXPECT_STREQ(error.what(),
                   "rank 1 called all_reduce(6 x Float, sum) where rank 0 called "
                   "all_reduce(5 x Float, sum)");
    }
  });
}

TEST(LocalGroupBehaviour, AnUnfinishedWorkIsNotDone) {
  const auto group = make_local_group(2);
  const auto first = torch::ones({1});
  const auto second = torch::ones({1});
  const auto work = group[0]->all_reduce_async(first, ReduceOp::kSum);
  EXPECT_FALSE(work->done());
  const auto other = group[1]->all_reduce_async(second, ReduceOp::kSum);
  EXPECT_TRUE(work->done());
  work->wait();
  EXPECT_EQ(first.item<float>(), 2.0F);
}

}  // namespace
}  // namespace longship::comm
