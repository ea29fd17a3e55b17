#include "runtime/kernel_profile.h"

#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <gtest/gtest.h>

namespace longship::runtime {
namespace {

TEST(KernelProfile, KnowsTensorCoreKernelsByTheirNames) {
  for (const char* name : {"nvjet_sm90_hsh_64x8_64x16_1x2_h_bz_NNT",
                           "void cutlass::Kernel2<cutlass_80_tensorop_f16_s16816gemm_f16_128x64>",
                           "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7"}) {
    EXPECT_TRUE(names_tensor_cores(name)) << name;
  }
  for (const char* name : {"void LSTM_elementWise_bp1<__half, __half, float>",
                           "void at::native::vectorized_elementwise_kernel<4, at::native::F>",
                           "ampere_sgemm_128x64_nn"}) {
    EXPECT_FALSE(names_tensor_cores(name)) << name;
  }
}

TEST(KernelProfileGpu, CountsTheTimeOfKernels) {
  if (!at::cuda::is_available()) GTEST_SKIP() << "there is no GPU";
  const auto half = at::TensorOptions().device(at::kCUDA).dtype(at::kHalf);
  const at::Tensor a = at::ones({2048, 2048}, half);
  at::matmul(a, a);
  const KernelProfile profile = profile_kernels([&] {
    for (int i = 0; i < 5; ++i) at::matmul(a, a).relu_();
    at::cuda::getCurrentCUDAStream().synchronize();
  });
  EXPECT_GT(profile.tensor_core_ms, 0);
  EXPECT_GT(profile.kernel_ms, profile.tensor_core_ms);
  EXPECT_GE(profile.kernels.size(), 2);
  EXPECT_GE(profile.kernels.front().second, profile.kernels.back().second);
}

}  // namespace
}  // namespace longship::runtime
