#include "comm/wire_scale.h"

#include <ATen/cuda/CUDAContext.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

namespace longship::comm {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(WireCode, IsTheExponentOfTheLargestMagnitude) {
  EXPECT_EQ(WireCode::code(0.75F), 101);  // frexp: 0.75 = 0.75 * 2^0
  EXPECT_EQ(WireCode::code(1.0F), 102);
  EXPECT_EQ(WireCode::code(0), 0);
  EXPECT_EQ(WireCode::code(1e-38F), 1);
  EXPECT_EQ(WireCode::code(1e38F), 201);
  EXPECT_EQ(WireCode::code(kInfinity), 255);
  EXPECT_EQ(WireCode::code(kNan), 255);
}

TEST(WireCode, PowersOfTwoAreExact) {
  for (int k = -126; k <= 126; ++k) EXPECT_EQ(WireCode::power_of_two(k), std::ldexp(1.0F, k)) << k;
}

TEST(WireCode, EveryCodeIsExactInBothHalfTypes) {
  for (int code = 0; code <= 255; ++code) {
    if (code > 201 && code < 255) continue;
    const auto number = torch::tensor(static_cast<float>(code));
    EXPECT_EQ(number.to(torch::kHalf).item<float>(), static_cast<float>(code));
    EXPECT_EQ(number.to(torch::kBFloat16).item<float>(), static_cast<float>(code));
  }
}

TEST(WireCode, LeavesRoomForTheSumAndForGrowth) {
  for (const int rank_bits : {1, 2, 3, 10}) {
    for (const float largest : {3e-20F, 1e-6F, 0.99F, 1.0F, 5e4F, 1e20F}) {
      const int exponent = WireCode::code(largest) - WireCode::kOffset;
      const double on_wire =
          double{largest} * WireCode::factor(exponent, rank_bits) * std::ldexp(64.0, rank_bits);
      EXPECT_LT(on_wire, 32768.0 * 1.0001) << rank_bits << ' ' << largest;
      EXPECT_GE(on_wire, 32768.0 / 2) << rank_bits << ' ' << largest;
    }
  }
}

using Setting = std::tuple<c10::DeviceType, at::ScalarType>;

class WireScaleTest : public testing::TestWithParam<Setting> {
 protected:
  void SetUp() override {
    if (std::get<0>(GetParam()) == c10::kCUDA && !at::cuda::is_available()) {
      GTEST_SKIP() << "there is no GPU";
    }
  }
  c10::Device device() const { return {std::get<0>(GetParam()), static_cast<c10::DeviceIndex>(0)}; }
  at::ScalarType type() const { return std::get<1>(GetParam()); }
  at::Tensor floats(const std::vector<float>& values) const {
    return torch::tensor(values).to(device());
  }
  at::Tensor wire(int64_t elements, int ranks) const {
    return torch::full({elements + ranks}, 3.0, at::TensorOptions().dtype(type()).device(device()));
  }
  // What the slots of a wire hold after the sum, without gradients before them.
  void record(WireScale& scale, const std::vector<float>& codes, int64_t bucket = 0) const {
    const at::Tensor summed = floats(codes).to(type());
    const at::Tensor nothing = floats({});
    scale.unpack(bucket, summed, nothing, {});
    scale.step_done();
  }
  float factor_after_pack(WireScale& scale, int ranks, int64_t bucket = 0) const {
    scale.pack(bucket, floats({1}), wire(1, ranks), {});
    return scale.factors()[bucket].item<float>();
  }
};

std::string setting_name(const testing::TestParamInfo<Setting>& test) {
  return std::string(std::get<0>(test.param) == c10::kCUDA ? "Gpu" : "Cpu") +
         (std::get<1>(test.param) == at::kHalf ? "Fp16" : "Bf16");
}
INSTANTIATE_TEST_SUITE_P(Wire, WireScaleTest,
                         testing::Combine(testing::Values(c10::kCPU, c10::kCUDA),
                                          testing::Values(at::kHalf, at::kBFloat16)),
                         setting_name);

TEST_P(WireScaleTest, CastsThereAndBackAsLibTorch) {
  // Sizes around the vector widths, and one that takes many blocks.
  for (const int64_t elements : {1, 3, 8, 13, 1000, 1000007}) {
    torch::manual_seed(4);
    const at::Tensor gradients = (torch::randn({elements}) * 1e-3).to(device());
    const at::Tensor loss_scale = torch::tensor(64.0F).to(device());
    WireScale scale(2, 1, 3, device());
    const at::Tensor codes = WireScale::codes({gradients, gradients}, loss_scale);
    scale.use_codes(codes);
    const at::Tensor on_wire = wire(elements, 3);
    scale.pack(1, gradients, on_wire, loss_scale);
    const at::Tensor factor = scale.factors().narrow(0, 1, 1);
    EXPECT_TRUE(
        at::equal(on_wire.narrow(0, 0, elements), (gradients * (factor / loss_scale)).to(type())));
    EXPECT_EQ(on_wire[elements].item<float>(), 0);
    EXPECT_EQ(on_wire[elements + 1].item<float>(), codes[1].item<float>());
    EXPECT_EQ(on_wire[elements + 2].item<float>(), 0);
    // The kernel's own word on the bucket is LibTorch's.
    EXPECT_EQ(codes[1].item<float>(), WireCode::code(gradients.abs().max().item<float>() / 64.0F));

    const at::Tensor back = torch::zeros_like(gradients);
    scale.unpack(1, on_wire, back, loss_scale);
    EXPECT_TRUE(
        at::equal(back, on_wire.narrow(0, 0, elements).to(at::kFloat) * (loss_scale / factor)));
    EXPECT_EQ(scale.history()[1][WireScale::kHistory - 1].item<float>(),
              codes[1].item<float>() - WireCode::kOffset);
    EXPECT_TRUE(torch::isnan(scale.history()[0]).all().item<bool>());
  }
}

TEST_P(WireScaleTest, TellsOfWhatIsNotFinite) {
  WireScale scale(1, 0, 2, device());
  for (const float bad : {kInfinity, -kInfinity, kNan}) {
    for (const int64_t place : {0, 9, 4096}) {
      at::Tensor gradients = torch::ones({4097});
      gradients[place] = bad;
      const at::Tensor on_wire = wire(4097, 2);
      scale.pack(0, gradients.to(device()), on_wire, {});
      EXPECT_EQ(on_wire[4097].item<float>(), WireCode::kNotFinite) << bad << " at " << place;
      EXPECT_FALSE(std::isfinite(on_wire[place].item<float>()));
    }
  }
  // The next call starts afresh.
  const at::Tensor on_wire = wire(8, 2);
  scale.pack(0, torch::zeros({8}).to(device()), on_wire, {});
  EXPECT_EQ(on_wire[8].item<float>(), 0);
}

TEST_P(WireScaleTest, TakesTheLargestOfTheHistory) {
  WireScale scale(1, 0, 2, device());
  EXPECT_FALSE(scale.known());
  record(scale, {101, 105});
  EXPECT_TRUE(scale.known());
  EXPECT_EQ(factor_after_pack(scale, 2), std::exp2(9 - 1 - 4.0F));
  for (int step = 0; step < 15; ++step) record(scale, {90, 91});
  EXPECT_EQ(factor_after_pack(scale, 2), std::exp2(9 - 1 - 4.0F));
  record(scale, {90, 91});  // the 17th forgets the first
  EXPECT_EQ(factor_after_pack(scale, 2), std::exp2(9 - 1 + 10.0F));
}

TEST_P(WireScaleTest, DoesNotRecordWhatTellsNothing) {
  WireScale scale(1, 0, 2, device());
  record(scale, {103, 102});
  const auto before = scale.history().clone();
  record(scale, {255, 102});
  record(scale, {kNan, kNan});
  record(scale, {kInfinity, 101});
  record(scale, {0, 0});
  EXPECT_TRUE(torch::equal(torch::nan_to_num(scale.history(), 9), torch::nan_to_num(before, 9)));
}

TEST_P(WireScaleTest, BucketsAreScaledApart) {
  WireScale scale(3, 0, 2, device());
  record(scale, {101, 0}, 0);
  record(scale, {255, 111}, 1);
  record(scale, {111, 101}, 2);
  EXPECT_EQ(factor_after_pack(scale, 2, 0), 256);
  EXPECT_EQ(factor_after_pack(scale, 2, 1), 256);  // nothing known: 2^0
  EXPECT_EQ(factor_after_pack(scale, 2, 2), 0.25F);
}

TEST_P(WireScaleTest, LoadsItsOwnShapeOnly) {
  WireScale scale(2, 0, 2, device());
  record(scale, {101, 0}, 0);
  record(scale, {90, 99}, 1);
  WireScale other(2, 0, 2, device());
  other.load(scale.history().cpu());
  EXPECT_TRUE(other.known());
  for (const int64_t bucket : {0, 1}) {
    EXPECT_EQ(factor_after_pack(scale, 2, bucket), factor_after_pack(other, 2, bucket));
  }
  other.load(torch::zeros({3, WireScale::kHistory}));
  EXPECT_FALSE(other.known());
  other.load(at::Tensor());
  EXPECT_FALSE(other.known());
  other.load(torch::full({2, WireScale::kHistory}, kNan));
  EXPECT_FALSE(other.known());
}

}  // namespace
}  // namespace longship::comm
