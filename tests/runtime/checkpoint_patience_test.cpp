#include "runtime/checkpoint_patience.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>

#include "checkpoint_support.h"
#include "runtime/agreement.h"

namespace longship::runtime {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using tests::no_errors;
using tests::on_ranks;

TEST(CheckpointPatience, ReturnsWhenAllRanksAreReady) {
  std::atomic<int> done{0};
  EXPECT_EQ(on_ranks(3,
                     [&](comm::Communicator& host) {
                       std::function<void()> work;
                       if (host.rank() != 1) work = [&] { ++done; };
                       collectively_with_patience(host, "node", work);
                       EXPECT_EQ(done, 2);
                     }),
            no_errors(3));
}

// The communicator gives up on a rank after two seconds; one that is busy for longer is not given
// up on.
TEST(CheckpointPatience, WorkMayTakeLongerThanTheCommunicatorsLimit) {
  auto group = comm::make_local_group(2, std::chrono::milliseconds(2000));
  std::atomic<bool> finished{false};
  std::vector<std::thread> threads;
  std::vector<std::string> errors(2);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        std::function<void()> work;
        if (rank == 1) {
          work = [&] {
            std::this_thread::sleep_for(std::chrono::milliseconds(2500));
            finished = true;
          };
        }
        collectively_with_patience(*group[rank], "node", work, {}, std::chrono::milliseconds(20));
        EXPECT_TRUE(finished);
      } catch (const std::exception& error) {
        errors[rank] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(errors, no_errors(2));
}

TEST(CheckpointPatience, AFailureOfOneRankIsThatOfAll) {
  const auto errors = on_ranks(3, [](comm::Communicator& host) {
    collectively_with_patience(host, "node-" + std::to_string(host.rank()), [&] {
      if (host.rank() == 2) throw CheckpointError("no room");
    });
  });
  EXPECT_THAT(errors, Each(AllOf(HasSubstr("no room"), HasSubstr("rank 2"), HasSubstr("node-2"))));
}

TEST(CheckpointPatience, OneRankAloneWorksInItsOwnThread) {
  const auto host = comm::make_local_communicator();
  std::thread::id worker;
  collectively_with_patience(*host, "node", [&] { worker = std::this_thread::get_id(); });
  EXPECT_EQ(worker, std::this_thread::get_id());
}

}  // namespace
}  // namespace longship::runtime
