#include "comm/wire_scale.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <limits>
#include <vector>

namespace longship::comm {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

float code_of(const std::vector<float>& gradients, float loss_scale = 1) {
  return WireScale::code(torch::tensor(gradients), torch::tensor(1 / loss_scale)).item<float>();
}

at::Tensor codes(const std::vector<float>& of_ranks) {
  return torch::tensor(of_ranks).view({1, -1});
}

TEST(WireScale, CodesTheExponentOfTheLargestMagnitude) {
  EXPECT_EQ(code_of({0.5F, -0.75F}), 101);  // frexp: 0.75 = 0.75 * 2^0
  EXPECT_EQ(code_of({0.25F, -1.0F}), 102);
  EXPECT_EQ(code_of({1024.0F}, 1024), 102);  // the loss scale is taken out
  EXPECT_EQ(code_of({0, 0}), 0);
  EXPECT_EQ(code_of({1e-38F}), 1);
  EXPECT_EQ(code_of({1e38F}), 201);
  EXPECT_EQ(code_of({1, kInfinity}), 255);
  EXPECT_EQ(code_of({1, std::nanf("")}), 255);
}

TEST(WireScale, EveryCodeIsExactInBothHalfTypes) {
  for (int code = 0; code <= 255; ++code) {
    if (code > 201 && code < 255) continue;
    const auto number = torch::tensor(static_cast<float>(code));
    EXPECT_EQ(number.to(torch::kHalf).item<float>(), static_cast<float>(code));
    EXPECT_EQ(number.to(torch::kBFloat16).item<float>(), static_cast<float>(code));
  }
}

TEST(WireScale, LeavesRoomForTheSumAndForGrowth) {
  for (const int ranks : {2, 3, 4, 7, 8, 1000}) {
    for (const float largest : {3e-20F, 1e-6F, 0.99F, 1.0F, 5e4F, 1e20F}) {
      WireScale scale(1, ranks, at::kCPU);
      const auto code = WireScale::code(torch::tensor({largest}), torch::tensor(1.0F));
      scale.use_codes(code.view({1}));
      const double on_wire = double{largest} * scale.factors().item<float>() * ranks * 64;
      EXPECT_LT(on_wire, 32768.0) << ranks << ' ' << largest;
      EXPECT_GE(on_wire, 32768.0 / 4) << ranks << ' ' << largest;
      EXPECT_EQ(std::exp2(std::round(std::log2(scale.factors().item<float>()))),
                scale.factors().item<float>());
    }
  }
}

TEST(WireScale, TakesTheLargestOfTheHistory) {
  WireScale scale(1, 2, at::kCPU);
  EXPECT_FALSE(scale.known());
  scale.record(codes({101, 105}));
  EXPECT_TRUE(scale.known());
  scale.use_history();
  EXPECT_EQ(scale.factors().item<float>(), std::exp2(9 - 1 - 4.0F));
  for (int step = 0; step < 15; ++step) scale.record(codes({90, 91}));
  scale.use_history();
  EXPECT_EQ(scale.factors().item<float>(), std::exp2(9 - 1 - 4.0F));
  scale.record(codes({90, 91}));  // the 17th forgets the first
  scale.use_history();
  EXPECT_EQ(scale.factors().item<float>(), std::exp2(9 - 1 + 10.0F));
}

TEST(WireScale, DoesNotRecordWhatTellsNothing) {
  WireScale scale(1, 2, at::kCPU);
  scale.record(codes({103, 102}));
  const auto before = scale.history().clone();
  scale.record(codes({255, 102}));
  scale.record(codes({std::nanf(""), std::nanf("")}));
  scale.record(codes({kInfinity, 101}));
  scale.record(codes({0, 0}));
  EXPECT_TRUE(torch::equal(torch::nan_to_num(scale.history(), 9), torch::nan_to_num(before, 9)));
}

TEST(WireScale, BucketsAreScaledApart) {
  WireScale scale(3, 2, at::kCPU);
  scale.record(torch::tensor({{101.0F, 0.0F}, {255.0F, 111.0F}, {111.0F, 101.0F}}));
  scale.use_history();
  EXPECT_EQ(scale.factors()[0].item<float>(), 256);
  EXPECT_EQ(scale.factors()[1].item<float>(), 256);  // nothing known: 2^0
  EXPECT_EQ(scale.factors()[2].item<float>(), 0.25F);
}

TEST(WireScale, LoadsItsOwnShapeOnly) {
  WireScale scale(2, 2, at::kCPU);
  scale.record(torch::tensor({{101.0F, 0.0F}, {90.0F, 99.0F}}));
  WireScale other(2, 2, at::kCPU);
  other.load(scale.history());
  EXPECT_TRUE(other.known());
  scale.use_history();
  other.use_history();
  EXPECT_TRUE(torch::equal(scale.factors(), other.factors()));
  other.load(torch::zeros({3, WireScale::kHistory}));
  EXPECT_FALSE(other.known());
  other.load(at::Tensor());
  EXPECT_FALSE(other.known());
  other.load(torch::full({2, WireScale::kHistory}, std::nanf("")));
  EXPECT_FALSE(other.known());
}

}  // namespace
}  // namespace longship::comm
