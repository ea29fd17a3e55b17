#include "models/fp8_linear.h"

#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "models/fp8_cast.h"

namespace longship::models {
namespace {

TEST(Fp8Scale, BringsMagnitudesBelowTheTopOfTheRange) {
  const float infinity = std::numeric_limits<float>::infinity();
  const at::Tensor amax =
      at::tensor({0.0F, 1.0F, 0.9F, 448.0F, 3e-9F, infinity, std::nanf("")}, at::kFloat);
  const at::Tensor e4m3 = fp8_scale(amax, /*e5m2=*/false);
  const at::Tensor e5m2 = fp8_scale(amax, /*e5m2=*/true);
  // Without a magnitude there is nothing to scale by.
  for (const int64_t i : {0, 5, 6}) {
    EXPECT_EQ(e4m3[i].item<float>(), 1);
    EXPECT_EQ(e5m2[i].item<float>(), 1);
  }
  EXPECT_EQ(e4m3[1].item<float>(), 128);  // 1 < 2^1
  EXPECT_EQ(e4m3[2].item<float>(), 256);  // 0.9 < 2^0
  EXPECT_EQ(e4m3[3].item<float>(), 0.5F);
  EXPECT_EQ(e5m2[1].item<float>(), 16384);
  for (const int64_t i : {1, 2, 3, 4}) {
    const float at_top = amax[i].item<float>() * e4m3[i].item<float>();
    EXPECT_LT(at_top, 256);
    EXPECT_GE(at_top, 128);
  }
}

TEST(Fp8LinearLayer, WithoutNumbersItIsAnOrdinaryOne) {
  const Fp8Layer none;
  const at::Tensor x = at::randn({3, 16});
  const at::Tensor weight = at::randn({32, 16});
  const at::Tensor bias = at::randn({32});
  EXPECT_TRUE(at::equal(fp8_linear(x, weight, bias, none), at::linear(x, weight, bias)));
}

class Fp8LinearGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (!at::cuda::is_available()) GTEST_SKIP() << "there is no GPU";
    if (at::cuda::getCurrentDeviceProperties()->major < 9) {
      GTEST_SKIP() << "FP8 needs compute capability 9.0";
    }
    at::manual_seed(5);
    layer_.scale = at::ones({Fp8Layer::kMatrices}, gpu());
    layer_.amax = at::zeros({Fp8Layer::kMatrices}, gpu());
  }
  static at::TensorOptions gpu() { return at::TensorOptions().device(at::kCUDA); }
  // Relative to the norm of what was expected.
  static double distance(const at::Tensor& found, const at::Tensor& expected) {
    return (found.to(at::kFloat) - expected).norm().item<double>() / expected.norm().item<double>();
  }
  // x rounded to the type after scaling by a power of two that suits it.
  static at::Tensor rounded(const at::Tensor& x, bool e5m2) {
    const at::Tensor scale = fp8_scale(x.abs().amax(), e5m2);
    return (x * scale).to(e5m2 ? at::kFloat8_e5m2 : at::kFloat8_e4m3fn).to(at::kFloat) / scale;
  }
  Fp8Layer layer_;
};

using Fp8CastGpu = Fp8LinearGpu;

TEST_F(Fp8CastGpu, CastsAsItIsAndTurned) {
  for (const bool e5m2 : {false, true}) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      const at::Tensor values = at::randn({80, 112}, gpu()).to(type);
      const at::Tensor scale = at::full({1}, 16.0F, gpu());
      const at::Tensor amax = at::zeros({1}, gpu());
      const auto options = gpu().dtype(e5m2 ? at::kFloat8_e5m2 : at::kFloat8_e4m3fn);
      const at::Tensor cast = at::empty({80, 112}, options);
      const at::Tensor turned = at::empty({112, 80}, options);
      Fp8Cast what;
      what.values = values.const_data_ptr();
      what.bfloat16 = type == at::kBFloat16;
      what.rows = 80;
      what.columns = 112;
      what.e5m2 = e5m2;
      what.scale = scale.const_data_ptr<float>();
      what.amax = amax.mutable_data_ptr<float>();
      what.cast = cast.mutable_data_ptr();
      what.turned = turned.mutable_data_ptr();
      cast_fp8_cuda(what, at::cuda::getCurrentCUDAStream());
      const at::Tensor expected = (values.to(at::kFloat) * 16).to(options.dtype()).to(at::kFloat);
      EXPECT_TRUE(at::equal(cast.to(at::kFloat), expected));
      EXPECT_TRUE(at::equal(turned.to(at::kFloat), expected.t()));
      EXPECT_EQ(amax.item<float>(), values.abs().max().item<float>());
    }
  }
}

TEST_F(Fp8LinearGpu, IsTheProductOfTheRoundedMatrices) {
  // Sizes that do not fill the kernel's tiles, and values far from 1.
  for (const auto& [rows, inputs, outputs] : std::vector<std::tuple<int64_t, int64_t, int64_t>>{
           {16, 16, 16}, {48, 80, 112}, {256, 128, 64}}) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      const at::Tensor x = (at::randn({rows, inputs}, gpu()) * 1e-3).to(type).requires_grad_();
      const at::Tensor weight = (at::randn({outputs, inputs}, gpu()) * 30).requires_grad_();
      // So small that adding it rounds nothing off the product.
      const at::Tensor bias = (at::randn({outputs}, gpu()) * 1e-4).requires_grad_();
      const at::Tensor gradient = (at::randn({rows, outputs}, gpu()) * 1e-6).to(at::kBFloat16);
      layer_.amax.zero_();
      const at::Tensor y = fp8_linear(x, weight, bias, layer_);
      y.backward(gradient);

      const at::Tensor xq = rounded(x.detach().to(at::kFloat), false);
      const at::Tensor wq = rounded(weight.detach(), false);
      const at::Tensor gq = rounded(gradient.to(at::kFloat), true);
      EXPECT_EQ(y.scalar_type(), at::kBFloat16);
      EXPECT_LT(distance(y.detach() - bias.detach(), xq.mm(wq.t())), 1e-2) << rows << ' ' << type;
      EXPECT_LT(distance(x.grad(), gq.mm(wq)), 1e-2);
      EXPECT_LT(distance(weight.grad(), gq.t().mm(xq)), 1e-3);
      EXPECT_LT(distance(bias.grad(), gradient.to(at::kFloat).sum(0)), 1e-2);
      // And near the exact product: E4M3 rounds by up to 1/16, E5M2 by 1/8.
      const at::Tensor exact = x.detach().to(at::kFloat).mm(weight.detach().t());
      EXPECT_LT(distance(y.detach() - bias.detach(), exact), 0.06);
      // The magnitudes that the next step's scales come from.
      EXPECT_EQ(layer_.amax[0].item<float>(), x.detach().abs().max().item<float>());
      EXPECT_EQ(layer_.amax[1].item<float>(), weight.detach().abs().max().item<float>());
      EXPECT_EQ(layer_.amax[2].item<float>(), gradient.abs().max().item<float>());
    }
  }
}

TEST_F(Fp8LinearGpu, ScalesOfEarlierStepsLimitWhatExceedsThem) {
  layer_.from_itself = false;  // the scale is 1: values above 448 are limited to it
  const at::Tensor x = at::full({16, 16}, 1000.0F, gpu()).requires_grad_();
  const at::Tensor weight = at::eye(16, gpu()).requires_grad_();
  const at::Tensor y = fp8_linear(x, weight, at::zeros({16}, gpu()), layer_);
  EXPECT_TRUE(y.eq(448).all().item<bool>());
  EXPECT_EQ(layer_.amax[0].item<float>(), 1000);
}

TEST_F(Fp8LinearGpu, WhatIsNotANumberStaysSo) {
  at::Tensor x = at::ones({16, 16}, gpu());
  x[3][4] = std::nanf("");
  x.requires_grad_();
  const at::Tensor weight = at::eye(16, gpu()).requires_grad_();
  layer_.from_itself = false;
  const at::Tensor y = fp8_linear(x, weight, at::zeros({16}, gpu()), layer_);
  EXPECT_TRUE(y[3][4].isnan().item<bool>());
  EXPECT_TRUE(layer_.amax[0].isnan().item<bool>());
}

TEST_F(Fp8LinearGpu, OtherSizesAndEvaluationsTakeTheOrdinaryWay) {
  const at::Tensor weight = at::randn({32, 16}, gpu()).requires_grad_();
  const at::Tensor bias = at::randn({32}, gpu());
  const at::Tensor odd = at::randn({3, 16}, gpu());
  EXPECT_TRUE(at::equal(fp8_linear(odd, weight, bias, layer_), at::linear(odd, weight, bias)));
  const at::NoGradGuard no_grad;
  const at::Tensor even = at::randn({16, 16}, gpu());
  EXPECT_TRUE(at::equal(fp8_linear(even, weight, bias, layer_), at::linear(even, weight, bias)));
  EXPECT_EQ(layer_.amax.max().item<float>(), 0);
}

}  // namespace
}  // namespace longship::models
