#include "comm/gradient_shards.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <limits>
#include <string>
#include <vector>

#include "comm/local_communicator.h"
#include "rank_threads.h"

namespace longship::comm {
namespace {

const std::vector<std::vector<int64_t>> kShapes{{5, 3}, {7}, {40, 16}, {1}, {2, 9}};

TEST(ShardElements, PartsOfAllRanksHoldTheBucket) {
  EXPECT_EQ(shard_elements(1, 1), 64);
  EXPECT_EQ(shard_elements(128, 2), 64);
  EXPECT_EQ(shard_elements(129, 2), 128);
  for (const int64_t ranks : {1, 2, 3, 7, 1000}) {
    for (const int64_t elements : {1, 63, 64, 65, 100000}) {
      EXPECT_GE(shard_elements(elements, ranks) * ranks, elements);
      EXPECT_EQ(shard_elements(elements, ranks) % 64, 0);
    }
  }
}

class Sharded : public testing::TestWithParam<WireFormat> {
 protected:
  static ReducerOptions options() {
    ReducerOptions options;
    options.wire = GetParam();
    options.first_bucket_bytes = 64;
    options.bucket_bytes = 1024;
    options.shard = true;
    return options;
  }
  // A number that FP16 and BF16 hold, sums over ranks included.
  static at::Tensor gradient_of(size_t parameter, int rank) {
    return torch::full(kShapes[parameter], static_cast<float>(parameter + 1) * (rank % 2 ? 2 : 1));
  }
  static at::Tensor sum_of(size_t parameter, int ranks) {
    at::Tensor sum = torch::zeros(kShapes[parameter]);
    for (int rank = 0; rank < ranks; ++rank) sum += gradient_of(parameter, rank);
    return sum;
  }
  static std::vector<at::Tensor> parameters() {
    std::vector<at::Tensor> all;
    for (const auto& shape : kShapes) all.push_back(torch::zeros(shape).requires_grad_());
    return all;
  }
  static void step(GradientReducer& reducer, const std::vector<at::Tensor>& parameters, int rank,
                   float factor = 1) {
    reducer.zero();
    reducer.begin_micro_step(true);
    at::Tensor loss = torch::zeros({});
    for (size_t p = 0; p < parameters.size(); ++p) {
      loss = loss + (parameters[p] * gradient_of(p, rank) * factor).sum();
    }
    loss.backward();
    reducer.finalize();
  }
  static double norm(GradientReducer& reducer) {
    reducer.measure();
    reducer.share_measure();
    return reducer.squares().sum().sqrt().item<double>();
  }
};

TEST_P(Sharded, EachRankGetsTheSumsOfItsPiecesAndTheNormOfAll) {
  for (const int size : {1, 2, 3, 7}) {
    play_ranks(make_local_group(size), [&](Communicator& communicator) {
      const auto all = parameters();
      GradientReducer reducer(all, communicator, options());
      for (int round = 0; round < 3; ++round) {
        step(reducer, all, communicator.rank());
        for (const GradientPiece& piece : reducer.pieces()) {
          const auto p = static_cast<size_t>(piece.parameter);
          const at::Tensor want =
              sum_of(p, size).view(-1).narrow(0, piece.begin, piece.gradient.numel());
          EXPECT_TRUE(torch::allclose(piece.gradient, want)) << size << ' ' << p;
        }
        double squares = 0;
        for (size_t p = 0; p < kShapes.size(); ++p) {
          squares += sum_of(p, size).square().sum().item<double>();
        }
        EXPECT_NEAR(norm(reducer), std::sqrt(squares), 1e-5 * std::sqrt(squares));
      }
    });
  }
}

TEST_P(Sharded, WhatEachUpdatesAllGet) {
  for (const int size : {1, 2, 3, 7}) {
    play_ranks(make_local_group(size), [&](Communicator& communicator) {
      const auto all = parameters();
      GradientReducer reducer(all, communicator, options());
      for (int round = 1; round <= 2; ++round) {
        step(reducer, all, communicator.rank());
        for (const GradientPiece& piece : reducer.pieces()) {
          at::Tensor values = piece.values;
          values.sub_(piece.gradient);
        }
        reducer.pack_parameters();
        reducer.communicate_parameters();
        reducer.unpack_parameters();
        for (size_t p = 0; p < all.size(); ++p) {
          EXPECT_TRUE(torch::allclose(all[p], sum_of(p, size) * -round)) << size << ' ' << p;
        }
      }
    });
  }
}

TEST_P(Sharded, AnOverflowInOnePieceIsSeenByAll) {
  play_ranks(make_local_group(3), [&](Communicator& communicator) {
    const auto all = parameters();
    GradientReducer reducer(all, communicator, options());
    step(reducer, all, communicator.rank());
    EXPECT_TRUE(std::isfinite(norm(reducer)));
    const bool odd = communicator.rank() == 1;
    step(reducer, all, communicator.rank(), odd ? std::numeric_limits<float>::infinity() : 1.0F);
    EXPECT_FALSE(std::isfinite(norm(reducer)));
    step(reducer, all, communicator.rank());
    EXPECT_TRUE(std::isfinite(norm(reducer)));
  });
}

// The wire scales' history is that of reducers that are not sharded, on every rank.
TEST_P(Sharded, CodesOfTheWireScalesReachEveryRank) {
  std::vector<at::Tensor> histories(3);
  at::Tensor expected;
  for (const bool shard : {false, true}) {
    play_ranks(make_local_group(3), [&](Communicator& communicator) {
      const auto all = parameters();
      ReducerOptions chosen = options();
      chosen.shard = shard;
      GradientReducer reducer(all, communicator, chosen);
      for (const float factor : {1.0F, 100.0F, 0.01F}) {
        step(reducer, all, communicator.rank(), factor);
      }
      histories[static_cast<size_t>(communicator.rank())] = reducer.state();
    });
    if (!shard) expected = histories[0];
    for (const at::Tensor& history : histories) {
      EXPECT_TRUE(torch::allclose(history, expected, 0, 0, /*equal_nan=*/true));
    }
  }
}

TEST_P(Sharded, InPartsAsInOneGo) {
  play_ranks(make_local_group(3), [&](Communicator& communicator) {
    const auto all = parameters();
    GradientReducer whole(all, communicator, options());
    step(whole, all, communicator.rank());
    step(whole, all, communicator.rank());
    std::vector<at::Tensor> expected;
    for (const GradientPiece& piece : whole.pieces()) expected.push_back(piece.gradient.clone());

    const auto others = parameters();
    GradientReducer parted(others, communicator, options());
    step(parted, others, communicator.rank());
    parted.zero();
    parted.set_overlap(false);
    parted.begin_micro_step(true);
    at::Tensor loss = torch::zeros({});
    for (size_t p = 0; p < others.size(); ++p) {
      loss = loss + (others[p] * gradient_of(p, communicator.rank())).sum();
    }
    loss.backward();
    parted.pack();
    parted.communicate();
    parted.unpack();
    ASSERT_EQ(parted.pieces().size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_TRUE(at::equal(parted.pieces()[i].gradient, expected[i]));
    }
  });
}

std::string wire_name(const testing::TestParamInfo<WireFormat>& test) {
  constexpr const char* kNames[] = {"fp32", "fp16", "bf16"};
  return kNames[static_cast<size_t>(test.param)];
}

INSTANTIATE_TEST_SUITE_P(Wire, Sharded,
                         testing::Values(WireFormat::kFp32, WireFormat::kFp16, WireFormat::kBf16),
                         wire_name);

TEST(ShardedReducer, RefusesParametersThatAreNotContiguous) {
  const auto alone = make_local_communicator();
  ReducerOptions options;
  options.shard = true;
  const at::Tensor turned = torch::zeros({3, 4}).t().requires_grad_();
  EXPECT_THROW(GradientReducer({turned}, *alone, options), std::invalid_argument);
}

TEST(ShardedReducer, CountsTheBytesItHandsOver) {
  play_ranks(make_local_group(2), [&](Communicator& communicator) {
    ReducerOptions options;
    options.shard = true;
    options.wire = WireFormat::kFp16;
    const at::Tensor parameter = torch::zeros({100}).requires_grad_();
    const GradientReducer reducer({parameter}, communicator, options);
    // Two parts of 64 in FP16 with two codes, and the own part in float32.
    EXPECT_EQ(reducer.wire_bytes_per_step(), 2 * (2 * 64 + 2) + 4 * 64);
  });
}

}  // namespace
}  // namespace longship::comm
