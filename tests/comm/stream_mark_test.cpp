#include "comm/stream_mark.h"

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <chrono>
#include <thread>

namespace longship::comm {
namespace {

TEST(StreamMark, IsReachedAtOnceOnTheCpu) {
  StreamMark mark;
  EXPECT_TRUE(mark.reached());
  mark.record(at::kCPU);
  mark.block(at::kCPU);
  EXPECT_TRUE(mark.reached());
}

class StreamMarkGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available()) GTEST_SKIP() << "there is no GPU";
  }
  // Some hundred milliseconds of work on the current stream, at its end `number` in `result`.
  static void work(const at::Tensor& result, float number) {
    at::Tensor matrix = torch::full({8192, 8192}, 1e-4F, result.device());
    for (int i = 0; i < 20; ++i) matrix = matrix.mm(matrix);
    result.copy_(matrix[0][0] * 0 + number);
  }
  const at::Device gpu_{at::kCUDA, 0};
};

TEST_F(StreamMarkGpu, IsReachedOnceTheStreamHasPassedIt) {
  const at::Tensor result = torch::zeros({}, gpu_);
  work(result, 1);
  torch::cuda::synchronize();
  work(result, 3);
  StreamMark mark;
  mark.record(gpu_);
  EXPECT_FALSE(mark.reached());
  std::thread([&] {  // as the MPI thread asks
    while (!mark.reached()) std::this_thread::sleep_for(std::chrono::microseconds(10));
  })
      .join();
  EXPECT_EQ(result.item<float>(), 3);
}

TEST_F(StreamMarkGpu, HoldsAnotherStreamBack) {
  const at::Tensor result = torch::zeros({}, gpu_);
  const at::Tensor seen = torch::zeros({}, gpu_);
  torch::cuda::synchronize();
  work(result, 5);
  StreamMark mark;
  mark.record(gpu_);
  {
    const c10::impl::VirtualGuardImpl streams(at::kCUDA);
    const c10::StreamGuard other(streams.getStreamFromGlobalPool(gpu_));
    mark.block(gpu_);
    seen.copy_(result);
  }
  torch::cuda::synchronize();
  EXPECT_EQ(seen.item<float>(), 5);
}

}  // namespace
}  // namespace longship::comm
