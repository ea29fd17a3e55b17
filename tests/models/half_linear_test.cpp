#include "models/half_linear.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <ATen/cuda/CUDAContext.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace longship::models {
namespace {

class HalfLinearGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (!at::cuda::is_available()) GTEST_SKIP() << "there is no GPU";
  }
};

double error(const at::Tensor& found, const at::Tensor& expected) {
  return ((found.to(at::kDouble) - expected).norm() / expected.norm()).item<double>();
}

TEST_F(HalfLinearGpu, SumsColumnsOfAnySize) {
  for (const at::ScalarType type : {at::kHalf, at::kBFloat16}) {
    for (const int64_t rows : {1, 63, 64, 65, 5000}) {
      for (const int64_t columns : {3, 8, 96, 128, 136, 384, 2048}) {
        const at::Tensor matrix =
            at::randn({rows, columns}, at::TensorOptions().device(at::kCUDA).dtype(type));
        const at::Tensor sums = column_sums(matrix);
        EXPECT_EQ(sums.scalar_type(), at::kFloat);
        const at::Tensor scale = matrix.to(at::kDouble).abs().sum(0);
        const at::Tensor off = (sums.to(at::kDouble) - matrix.to(at::kDouble).sum(0)).abs() / scale;
        EXPECT_LT(off.max().item<double>(), 1e-6) << type << ' ' << rows << " x " << columns;
      }
    }
  }
  const at::Tensor turned = at::randn({128, 64}, at::kCUDA).to(at::kHalf).t();
  EXPECT_LT(error(column_sums(turned), turned.to(at::kDouble).sum(0)), 1e-5);
}

// Exact: float64 from the same float32 numbers.
TEST_F(HalfLinearGpu, GivesWhatAutocastGivesWithGradientsAtLeastAsNear) {
  const auto gpu = at::TensorOptions().device(at::kCUDA);
  for (const at::ScalarType type : {at::kHalf, at::kBFloat16}) {
    for (const bool half_input : {false, true}) {
      at::manual_seed(3);
      at::Tensor x = at::randn({20, 64, 96}, gpu);
      if (half_input) x = x.to(type);
      const at::Tensor weight = at::randn({128, 96}, gpu) / 10;
      const at::Tensor bias = at::randn({128}, gpu);
      const at::Tensor of_y = at::randn({20, 64, 128}, gpu).to(type);
      const auto run = [&](at::ScalarType in, const auto& linear) {
        std::vector<at::Tensor> found;
        std::vector<at::Tensor> leaves;
        for (const at::Tensor& tensor : {x, weight, bias}) {
          const bool keep = in != at::kDouble;
          leaves.push_back(
              (keep ? tensor.detach().clone() : tensor.to(in)).detach().requires_grad_());
        }
        const at::Tensor y = linear(leaves);
        y.backward(of_y.to(y.scalar_type()));
        found.push_back(y.detach());
        for (const at::Tensor& leaf : leaves) found.push_back(leaf.grad());
        return found;
      };
      const auto exact =
          run(at::kDouble, [](const auto& l) { return at::linear(l[0], l[1], l[2]); });
      const auto ours =
          run(at::kFloat, [&](const auto& l) { return half_linear(l[0], l[1], l[2], type); });
      const auto plain = run(at::kFloat, [&](const auto& l) {
        at::autocast::set_autocast_dtype(at::kCUDA, type);
        at::autocast::set_autocast_enabled(at::kCUDA, true);
        const at::Tensor y = at::linear(l[0], l[1], l[2]);
        at::autocast::set_autocast_enabled(at::kCUDA, false);
        at::autocast::clear_cache();
        return y;
      });
      EXPECT_TRUE(at::equal(ours[0], plain[0])) << type;
      for (size_t i = 0; i < ours.size(); ++i) {
        EXPECT_EQ(ours[i].scalar_type(), plain[i].scalar_type()) << i;
        EXPECT_LE(error(ours[i], exact[i]), 1.05 * error(plain[i], exact[i])) << type << ' ' << i;
      }
    }
  }
}

}  // namespace
}  // namespace longship::models
