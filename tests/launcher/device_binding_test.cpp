#include "launcher/device_binding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "single_process.h"

namespace longship::launcher {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Gpus = std::vector<std::string>;

RankDevices rank_on(int node, const Gpus& gpus, const std::string& visible = "") {
  RankDevices rank;
  rank.node = node;
  rank.host = "host" + std::to_string(node);
  rank.gpus = gpus;
  rank.visible = visible;
  return rank;
}

TEST(ChooseDevices, NoGpuAnywhereMeansCpus) {
  EXPECT_THAT(choose_devices({rank_on(0, {}), rank_on(1, {})}, false), ElementsAre(-1, -1));
}

TEST(ChooseDevices, CpusWhereForcedEverywhere) {
  RankDevices rank = rank_on(0, {"a"});
  rank.requested = "cpu";
  EXPECT_THAT(choose_devices({rank, rank}, false), ElementsAre(-1, -1));
}

TEST(ChooseDevices, LocalRankWhereAllSeeAllGpus) {
  const Gpus first{"a", "b"};
  const Gpus second{"c", "d", "e"};
  // Placed slot by slot, unevenly.
  EXPECT_THAT(choose_devices({rank_on(0, first), rank_on(0, first), rank_on(1, second),
                              rank_on(1, second), rank_on(1, second)},
                             false),
              ElementsAre(0, 1, 0, 1, 2));
  // Placed node by node.
  EXPECT_THAT(choose_devices({rank_on(0, first), rank_on(1, second), rank_on(0, first),
                              rank_on(1, second), rank_on(1, second)},
                             false),
              ElementsAre(0, 0, 1, 1, 2));
}

TEST(ChooseDevices, FirstOfItsOwnWhereEachRankSeesOthers) {
  EXPECT_THAT(choose_devices({rank_on(0, {"a"}), rank_on(0, {"b"})}, false), ElementsAre(0, 0));
  EXPECT_THAT(choose_devices({rank_on(0, {"a", "b"}), rank_on(0, {"c", "d"})}, false),
              ElementsAre(0, 0));
}

TEST(ChooseDevices, MoreRanksThanGpusIsRefusedOnEveryRankAlike) {
  const RankDevices rank = rank_on(0, {"a", "b"}, "2,3");
  const std::string message = setup_error([&] { choose_devices({rank, rank, rank, rank}, false); });
  EXPECT_THAT(message, HasSubstr("Host host0: 4 ranks, 2 GPUs (CUDA_VISIBLE_DEVICES=2,3)"));
  EXPECT_THAT(message, HasSubstr("comm.backend=mpi"));
}

TEST(ChooseDevices, RanksShareGpusOverMpi) {
  const RankDevices rank = rank_on(0, {"a", "b"});
  EXPECT_THAT(choose_devices({rank, rank, rank}, true), ElementsAre(0, 1, 0));
}

TEST(ChooseDevices, OneGpuForTwoRanksIsFoundByItsIdentity) {
  const std::string message = setup_error([] {
    choose_devices({rank_on(0, {"a", "b"}, "0,1"), rank_on(0, {"a"}, "0")}, false);
  });
  EXPECT_THAT(message, HasSubstr("ranks 0 and 1 would share one GPU"));
  EXPECT_THAT(message, HasSubstr("0,1 and 0"));
}

TEST(ChooseDevices, GpusOnSomeHostsOnlyIsRefused) {
  const std::string message = setup_error([] {
    choose_devices({rank_on(0, {"a"}), rank_on(1, {}, "(empty)")}, false);
  });
  EXPECT_THAT(message, HasSubstr("Rank 0 on host host0 has a GPU, rank 1 on host host1 has none"));
  EXPECT_THAT(message, HasSubstr("CUDA_VISIBLE_DEVICES=(empty)"));
}

TEST(ChooseDevices, RequestedGpuThatIsNotThereIsRefused) {
  RankDevices rank = rank_on(0, {});
  rank.requested = "cuda";
  EXPECT_THAT(setup_error([&] { choose_devices({rank}, false); }),
              HasSubstr("sees no GPU (no GPU or no driver)"));
}

TEST(ChooseDevices, UnknownRequestAndDriverFailureAreRefused) {
  RankDevices unknown = rank_on(0, {});
  unknown.requested = "gpu";
  EXPECT_THAT(setup_error([&] {
                choose_devices({rank_on(0, {}), unknown}, false);
              }),
              HasSubstr("Rank 1 on host host0: LONGSHIP_DEVICE=gpu is not known"));
  RankDevices broken = rank_on(0, {"a"});
  broken.failure = "ECC error";
  EXPECT_THAT(setup_error([&] { choose_devices({broken}, false); }), HasSubstr("ECC error"));
}

TEST(VisibleDevices, JsonKeepsEverything) {
  RankDevices rank = rank_on(3, {"a", "b"}, "1,2");
  rank.host = "node \"ü\"";
  rank.requested = "cuda";
  rank.failure = "none\nat all";
  const RankDevices back = devices_of(json_of(rank));
  EXPECT_EQ(back.node, 3);
  EXPECT_EQ(back.host, rank.host);
  EXPECT_EQ(back.requested, "cuda");
  EXPECT_EQ(back.visible, "1,2");
  EXPECT_EQ(back.gpus, rank.gpus);
  EXPECT_EQ(back.failure, rank.failure);
}

TEST(VisibleDevices, ForcedCpusDoNotAskForGpus) {
  ASSERT_EQ(setenv("LONGSHIP_DEVICE", "cpu", 1), 0);
  ASSERT_EQ(setenv("CUDA_VISIBLE_DEVICES", "", 1), 0);
  const RankDevices rank = visible_devices(2, "here");
  EXPECT_EQ(rank.requested, "cpu");
  EXPECT_EQ(rank.visible, "(empty)");
  EXPECT_TRUE(rank.gpus.empty());
  EXPECT_EQ(rank.node, 2);
  unsetenv("LONGSHIP_DEVICE");
  unsetenv("CUDA_VISIBLE_DEVICES");
}

}  // namespace
}  // namespace longship::launcher
