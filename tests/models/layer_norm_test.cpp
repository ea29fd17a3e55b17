#include "models/layer_norm.h"

#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <gtest/gtest.h>

#include <vector>

namespace longship::models {
namespace {

struct Found {
  at::Tensor y;
  std::vector<at::Tensor> gradients;  // of x, weight, bias
};

// The layer's parameters are float32; the device and type of x count.
template <typename Forward>
Found run(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
          const at::Tensor& of_y, const Forward& forward) {
  std::vector<at::Tensor> leaves;
  for (const at::Tensor& tensor : {x, weight, bias}) {
    leaves.push_back(tensor.detach().clone().requires_grad_());
  }
  const at::Tensor y = forward(leaves[0], leaves[1], leaves[2]);
  y.backward(of_y);
  Found found{y.detach(), {}};
  for (const at::Tensor& leaf : leaves) found.gradients.push_back(leaf.grad());
  return found;
}

Found ours(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
           const at::Tensor& of_y) {
  return run(x, weight, bias, of_y,
             [](const at::Tensor& a, const at::Tensor& w, const at::Tensor& b) {
               torch::nn::LayerNorm norm(torch::nn::LayerNormOptions({a.size(-1)}));
               norm->weight = w;
               norm->bias = b;
               return layer_norm(a, *norm);
             });
}

Found exact(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
            const at::Tensor& of_y) {
  return run(x.to(at::kDouble), weight.to(at::kDouble), bias.to(at::kDouble), of_y.to(at::kDouble),
             [](const at::Tensor& a, const at::Tensor& w, const at::Tensor& b) {
               return at::layer_norm(a, {a.size(-1)}, w, b, 1e-5);
             });
}

double error(const at::Tensor& found, const at::Tensor& expected) {
  return ((found.to(at::kDouble) - expected).norm() / expected.norm()).item<double>();
}

void expect_right(at::IntArrayRef sizes, c10::Device device) {
  at::manual_seed(sizes.back());
  const auto options = at::TensorOptions().device(device);
  const at::Tensor x = at::randn(sizes, options) * 3 + 5;
  const at::Tensor weight = at::randn({sizes.back()}, options);
  const at::Tensor bias = at::randn({sizes.back()}, options);
  const at::Tensor of_y = at::randn(sizes, options);
  const Found found = ours(x, weight, bias, of_y);
  const Found expected = exact(x, weight, bias, of_y);
  EXPECT_LT(error(found.y, expected.y), 1e-6) << sizes;
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_LT(error(found.gradients[i], expected.gradients[i]), 3e-6) << sizes << " number " << i;
  }
}

TEST(LayerNorm, OnCpusIsLibTorchs) {
  expect_right({5, 3, 12}, c10::kCPU);
}

TEST(LayerNormGpu, IsRightForAnyRowsAndColumns) {
  if (!at::cuda::is_available()) GTEST_SKIP() << "there is no GPU";
  for (const int64_t columns : {4, 96, 128, 132, 256, 260, 512, 1024}) {
    for (const int64_t rows : {1, 7, 64, 5000}) expect_right({rows, columns}, c10::kCUDA);
  }
  expect_right({3, 64, 128}, c10::kCUDA);
  // By LibTorch.
  expect_right({40, 6}, c10::kCUDA);
  expect_right({40, 1028}, c10::kCUDA);
}

TEST(LayerNormGpu, RepeatsAgreeToTheBit) {
  if (!at::cuda::is_available()) GTEST_SKIP() << "there is no GPU";
  const auto gpu = at::TensorOptions().device(at::kCUDA);
  const at::Tensor x = at::randn({14336, 128}, gpu);
  const at::Tensor weight = at::randn({128}, gpu);
  const at::Tensor of_y = at::randn({14336, 128}, gpu);
  const Found first = ours(x, weight, weight, of_y);
  for (int repeat = 0; repeat < 20; ++repeat) {
    const Found again = ours(x, weight, weight, of_y);
    EXPECT_TRUE(at::equal(again.y, first.y));
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_TRUE(at::equal(again.gradients[i], first.gradients[i])) << i;
    }
  }
}

}  // namespace
}  // namespace longship::models
