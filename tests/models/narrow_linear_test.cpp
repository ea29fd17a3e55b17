#include "models/narrow_linear.h"

#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <vector>

namespace longship::models {
namespace {

TEST(NarrowLinear, IsForHalvesOnAGpu) {
  const at::Tensor weight = at::zeros({1, 8});
  EXPECT_FALSE(is_narrow_linear(at::zeros({4, 8}, at::kHalf), weight, at::zeros({1})));
}

class NarrowLinearGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (!at::cuda::is_available()) GTEST_SKIP() << "there is no GPU";
    at::manual_seed(2);
  }
  struct Given {
    at::Tensor x, weight, bias, of_y;
    Given(at::ScalarType type, int64_t rows, int64_t inputs, int64_t outputs)
        : x(at::randn({rows, inputs}, at::kCUDA).to(type)),
          weight(at::randn({outputs, inputs}, at::kCUDA)),
          bias(at::randn({outputs}, at::kCUDA)),
          of_y(at::randn({rows, outputs}, at::kCUDA).to(type)) {}
  };
  static double error(const at::Tensor& found, const at::Tensor& exact) {
    return ((found.to(at::kDouble) - exact).norm() / exact.norm()).item<double>();
  }
};

TEST_F(NarrowLinearGpu, IsThatOfFloat64) {
  for (const at::ScalarType type : {at::kHalf, at::kBFloat16}) {
    const double rounding = type == at::kHalf ? 0x1p-11 : 0x1p-8;
    for (const int64_t rows : {1, 7, 256, 1000}) {
      for (const int64_t inputs : {8, 64, 256, 2056}) {
        for (const int64_t outputs : {1, 3, 16}) {
          const Given given(type, rows, inputs, outputs);
          const auto leaf = [](const at::Tensor& t, at::ScalarType to) {
            return t.detach().to(to, false, true).requires_grad_();
          };
          const std::vector<at::Tensor> ours = {leaf(given.x, type), leaf(given.weight, at::kFloat),
                                                leaf(given.bias, at::kFloat)};
          const std::vector<at::Tensor> exact = {leaf(given.x, at::kDouble),
                                                 leaf(given.weight, at::kDouble),
                                                 leaf(given.bias, at::kDouble)};
          ASSERT_TRUE(is_narrow_linear(ours[0], ours[1], ours[2]));
          const at::Tensor y = narrow_linear(ours[0], ours[1], ours[2]);
          const at::Tensor reference = at::linear(exact[0], exact[1], exact[2]);
          EXPECT_EQ(y.scalar_type(), type);
          EXPECT_LE(error(y.detach(), reference), rounding);
          const auto of_ours = torch::autograd::grad({y}, ours, {given.of_y});
          const auto of_exact =
              torch::autograd::grad({reference}, exact, {given.of_y.to(at::kDouble)});
          EXPECT_LE(error(of_ours[0], of_exact[0]), rounding);
          EXPECT_LE(error(of_ours[1], of_exact[1]), 1e-6);
          EXPECT_LE(error(of_ours[2], of_exact[2]), 1e-5);
        }
      }
    }
  }
}

TEST_F(NarrowLinearGpu, GradientsAreAddedToWhatIsThere) {
  const Given given(at::kHalf, 256, 256, 2);
  const at::Tensor x = given.x.clone().requires_grad_();
  const at::Tensor weight = given.weight.clone().requires_grad_();
  const at::Tensor bias = given.bias.clone().requires_grad_();
  narrow_linear(x, weight, bias).backward(given.of_y);
  const std::vector<at::Tensor> once = {weight.grad().clone(), bias.grad().clone()};
  const void* place = weight.grad().data_ptr();
  narrow_linear(x, weight, bias).backward(given.of_y);
  EXPECT_EQ(weight.grad().data_ptr(), place);
  EXPECT_LE(error(weight.grad(), (2 * once[0]).to(at::kDouble)), 1e-6);
  EXPECT_LE(error(bias.grad(), (2 * once[1]).to(at::kDouble)), 1e-6);
  EXPECT_TRUE(x.grad().defined());
}

TEST_F(NarrowLinearGpu, RepeatsAgreeToTheBit) {
  const Given given(at::kHalf, 1000, 256, 5);
  const at::Tensor weight = given.weight.clone().requires_grad_();
  const auto run = [&] {
    return torch::autograd::grad({narrow_linear(given.x, weight, given.bias)}, {weight},
                                 {given.of_y})[0];
  };
  const at::Tensor first = run();
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(at::equal(run(), first));
}

TEST_F(NarrowLinearGpu, WhatItDoesNotTake) {
  const Given given(at::kHalf, 4, 16, 2);
  EXPECT_TRUE(is_narrow_linear(given.x, given.weight, given.bias));
  EXPECT_FALSE(is_narrow_linear(given.x.to(at::kFloat), given.weight, given.bias));
  EXPECT_FALSE(is_narrow_linear(given.x, given.weight.to(at::kHalf), given.bias));
  EXPECT_FALSE(
      is_narrow_linear(given.x, at::zeros({17, 16}, at::kCUDA), at::zeros({17}, at::kCUDA)));
  EXPECT_FALSE(is_narrow_linear(at::zeros({4, 12}, given.x.options()),
                                at::zeros({2, 12}, at::kCUDA), given.bias));
}

}  // namespace
}  // namespace longship::models
