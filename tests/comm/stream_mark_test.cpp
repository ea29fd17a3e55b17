#include "comm/stream_mark.h"

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

TEST(StreamMark, IsReachedWhenTheStreamHasPassedIt) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "there is no GPU";
  const at::Device gpu(at::kCUDA, 0);
  const auto numbers = torch::ones({1 << 20}, gpu);
  const auto sum = numbers.sum();
  StreamMark mark;
  mark.record(gpu);
  bool reached = false;
  std::thread([&] {  // as the MPI thread asks
    while (!(reached = mark.reached())) std::this_thread::sleep_for(std::chrono::microseconds(10));
  })
      .join();
  EXPECT_TRUE(reached);
  EXPECT_EQ(sum.item<float>(), static_cast<float>(1 << 20));
}

}  // namespace
}  // namespace longship::comm
