#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>

#include "models/lstm_kernels.h"

namespace longship::models {
namespace {

TEST(LstmRounds, EveryTileRunsOnceAndAfterItsPredecessor) {
  for (const int64_t layers : {1, 2, 3, 4}) {
    for (const int64_t tiles : {1, 4, 29, 30, 31, 32, 59, 60, 61, 128}) {
      for (const int64_t clusters : {1, 7, 30, 66}) {
        std::set<std::pair<int64_t, int64_t>> before;
        int64_t waves = 0;
        for (const auto& round : lstm_rounds(layers, tiles, clusters)) {
          std::set<std::pair<int64_t, int64_t>> now;
          ASSERT_LE(round.size(), 2u);
          for (const LstmTiles& part : round) {
            ASSERT_GT(part.tiles, 0);
            for (int64_t tile = part.first; tile < part.first + part.tiles; ++tile) {
              ASSERT_TRUE(now.insert({part.layer, tile}).second);
              ASSERT_FALSE(before.contains({part.layer, tile}));
              if (part.layer > 0) {
                ASSERT_TRUE(before.contains({part.layer - 1, tile}));
              }
            }
          }
          waves += (static_cast<int64_t>(now.size()) + clusters - 1) / clusters;
          before.merge(now);
        }
        EXPECT_EQ(static_cast<int64_t>(before.size()), layers * tiles);
        // As few waves as there can be, unless a layer is less than one.
        const int64_t least = (layers * tiles + clusters - 1) / clusters;
        EXPECT_EQ(waves, tiles < clusters ? layers : least) << tiles << ' ' << clusters;
      }
    }
  }
}

TEST(LstmRounds, ThreeLayersOf32TilesOn30ClustersTakeFour) {
  const auto rounds = lstm_rounds(3, 32, 30);
  ASSERT_EQ(rounds.size(), 4u);
  EXPECT_EQ(rounds[1].front().first, 30);
  EXPECT_EQ(rounds[1].back().layer, 1);
  EXPECT_EQ(rounds[1].back().tiles, 28);
}

}  // namespace
}  // namespace longship::models
