#include "runtime/agreement.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "comm/error.h"
#include "rank_group.h"

namespace longship::runtime {
namespace {

using testing::Each;

struct Outcome {
  std::string message;  // empty: agree() returned
  ExitCode code = ExitCode::kDone;
  bool operator==(const Outcome&) const = default;
};

void PrintTo(const Outcome& outcome, std::ostream* stream) {
  *stream << static_cast<int>(outcome.code) << " '" << outcome.message << "'";
}

// What each rank gets when rank r does work(r). Ranks run on hosts node-0, node-0, node-1, node-1.
std::vector<Outcome> outcomes(int size, const std::function<void(int)>& work) {
  const tests::Group group = comm::make_local_group(size);
  std::vector<Outcome> result(static_cast<size_t>(size));
  tests::play_ranks(size, [&](int rank) {
    comm::Communicator& host = tests::member(group, rank);
    try {
      collectively(host, "node-" + std::to_string(rank / 2), [&] { work(rank); });
    } catch (const AgreedError& error) {
      result[static_cast<size_t>(rank)] = {error.what(), error.code()};
    }
    // No collective was left half done.
    const at::Tensor one = at::ones({1});
    host.all_reduce(one, comm::ReduceOp::kSum);
    EXPECT_EQ(one.item<float>(), static_cast<float>(size));
  });
  return result;
}

TEST(Agreement, WithoutAnErrorAllGoOn) {
  EXPECT_THAT(outcomes(3, [](int) {}), Each(Outcome{}));
}

TEST(Agreement, TheErrorOfOneRankReachesAll) {
  const auto result = outcomes(4, [](int rank) {
    if (rank == 2) throw ConfigError("the file is gone");
  });
  EXPECT_THAT(result, Each(Outcome{"the file is gone [rank 2 of 4 (node-1)]", ExitCode::kInput}));
}

TEST(Agreement, OneMessageOfAllRanksComesOnce) {
  const auto result = outcomes(3, [](int) { throw CheckpointError("it is damaged"); });
  EXPECT_THAT(result, Each(Outcome{"it is damaged [all 3 ranks]", ExitCode::kCheckpoint}));
}

TEST(Agreement, DistinctMessagesComeOnceEachWithTheLowestRanksCode) {
  const auto result = outcomes(4, [](int rank) {
    if (rank == 1) throw Error(ExitCode::kSetup, "no GPU");
    if (rank > 1) throw std::runtime_error("no memory");
  });
  EXPECT_THAT(result, Each(Outcome{"no GPU [rank 1 of 4 (node-0)]; "
                                   "no memory [ranks 2 and 3 of 4 (node-1)]",
                                   ExitCode::kSetup}));
}

TEST(Agreement, ManyDistinctMessagesAreCounted) {
  const auto result =
      outcomes(5, [](int rank) { throw ConfigError("file " + std::to_string(rank)); });
  EXPECT_THAT(result, Each(Outcome{"file 0 [rank 0 of 5 (node-0)]; file 1 [rank 1 of 5 (node-0)]; "
                                   "file 2 [rank 2 of 5 (node-1)]; and 2 more such errors on other "
                                   "ranks",
                                   ExitCode::kInput}));
}

TEST(Agreement, NamesManyRanksAndEachHostOnce) {
  const auto result = outcomes(6, [](int rank) {
    if (rank != 4) throw ConfigError("no");
  });
  EXPECT_THAT(result, Each(Outcome{"no [ranks 0, 1, 2, 3 and 5 of 6 (node-0, node-1, node-2)]",
                                   ExitCode::kInput}));
}

TEST(Agreement, OneRankAloneIsNotNamed) {
  EXPECT_THAT(outcomes(1, [](int) { throw ConfigError("no"); }),
              Each(Outcome{"no", ExitCode::kInput}));
}

TEST(Agreement, AnythingThrownIsAnInternalError) {
  EXPECT_THAT(outcomes(1, [](int) { throw 42; }),
              Each(Outcome{"an exception of unknown type", ExitCode::kInternal}));
}

TEST(Agreement, LibTorchsErrorsComeWithoutABacktrace) {
  EXPECT_THAT(outcomes(2, [](int) { TORCH_CHECK(false, "the sizes differ"); }),
              Each(Outcome{"the sizes differ [all 2 ranks]", ExitCode::kInternal}));
}

TEST(Agreement, WhatIsAgreedOnAlreadyIsPassedOnAsItIs) {
  const AgreedError agreed(ExitCode::kDiverged, "diverged [all 2 ranks]");
  EXPECT_THAT(outcomes(2, [&](int) { throw agreed; }),
              Each(Outcome{"diverged [all 2 ranks]", ExitCode::kDiverged}));
}

TEST(Agreement, AFailedCollectiveIsNotFollowedByAnother) {
  // The other rank never comes: agree() would time out in a collective instead of passing it on.
  const tests::Group group = comm::make_local_group(2, std::chrono::milliseconds(50));
  const auto error = std::make_exception_ptr(
      comm::CommError(comm::CommError::Kind::kPeer, "rank 1 did not come to all_reduce 7"));
  try {
    agree(tests::member(group, 0), "node-0", error);
    FAIL() << "returned";
  } catch (const comm::CommError& failed) {
    EXPECT_STREQ(failed.what(), "rank 1 did not come to all_reduce 7");
  }
}

}  // namespace
}  // namespace longship::runtime
