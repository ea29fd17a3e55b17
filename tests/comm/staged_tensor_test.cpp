#include "comm/staged_tensor.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <chrono>
#include <thread>

namespace longship::comm {
namespace {

using Use = StagedTensor::Use;

TEST(StagedTensor, ACpuTensorIsUsedInPlace) {
  for (const Use use : {Use::kSend, Use::kReceive}) {
    at::Tensor tensor = torch::tensor({1.0F, 2.0F});
    const StagedTensor staged(tensor, use);
    EXPECT_EQ(staged.data(), tensor.data_ptr());
    EXPECT_FALSE(staged.ready());
    static_cast<float*>(staged.data())[1] = 5;
    staged.deliver();
    EXPECT_TRUE(torch::equal(tensor, torch::tensor({1.0F, 5.0F})));
  }
}

TEST(StagedTensor, ACpuTensorLivesAsLongAsItsStage) {
  at::Tensor tensor = torch::tensor({3.0F});
  const StagedTensor staged(tensor, Use::kSend);
  tensor.reset();
  EXPECT_EQ(*static_cast<const float*>(staged.data()), 3);
}

TEST(StagedTensor, ACudaTensorTravelsThroughPinnedMemory) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "there is no GPU";
  // Large enough that the copy has not ended when the stage is made.
  constexpr int64_t kElements = int64_t{1} << 24;
  const at::Tensor tensor = torch::arange(kElements, torch::kInt).cuda();
  const StagedTensor sent(tensor, Use::kSend);
  EXPECT_NE(sent.data(), tensor.data_ptr());
  ASSERT_TRUE(sent.ready());
  std::thread([&] {  // as the MPI thread asks
    while (!sent.ready()()) std::this_thread::sleep_for(std::chrono::microseconds(10));
  })
      .join();
  auto* numbers = static_cast<int32_t*>(sent.data());
  EXPECT_EQ(numbers[0], 0);
  EXPECT_EQ(numbers[kElements - 1], kElements - 1);
  numbers[0] = -1;
  EXPECT_EQ(tensor[0].item<int32_t>(), 0);
  sent.deliver();
  EXPECT_EQ(tensor[0].item<int32_t>(), -1);
}

TEST(StagedTensor, RoomForAResultIsReadyAtOnce) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "there is no GPU";
  const at::Tensor tensor = torch::zeros({2, 3}, torch::kCUDA);
  const StagedTensor staged(tensor, Use::kReceive);
  EXPECT_FALSE(staged.ready());
  for (int i = 0; i < 6; ++i) static_cast<float*>(staged.data())[i] = static_cast<float>(i);
  staged.deliver();
  EXPECT_TRUE(torch::equal(tensor.cpu(), torch::arange(6, torch::kFloat).view({2, 3})));
}

}  // namespace
}  // namespace longship::comm
