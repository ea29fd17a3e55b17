#include "runtime/device_memory.h"

#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "runtime/model_setup.h"
#include "test_series.h"

namespace longship::runtime {
namespace {

using testing::HasSubstr;

TEST(DeviceMemory, ACpuHoldsAnything) {
  const tests::TemporaryFolder nowhere;
  const Config config = tests::wave_config(nowhere);
  const auto model = make_model(config);
  EXPECT_TRUE(micro_batch_fits(*model, model_shape(config), int64_t{1} << 40, 0, c10::kCPU));
  EXPECT_EQ(peak_device_memory(c10::kCPU), 0);
  const auto other = std::make_exception_ptr(std::runtime_error("x"));
  EXPECT_EQ(out_of_memory_error(other, *model, model_shape(config), 24, 4, c10::kCPU), nullptr);
}

TEST(DeviceMemoryGpu, NamesTheMicroBatchThatFits) {
  if (!at::cuda::is_available()) GTEST_SKIP() << "there is no GPU";
  const tests::TemporaryFolder nowhere;
  const Config config =
      tests::wave_config(nowhere, {"model.name=lstm", "model.hidden_size=512", "data.window=64"});
  const c10::Device device(c10::kCUDA, 0);
  const auto model = make_model(config);
  model->to(device);
  const auto total = static_cast<double>(at::cuda::getDeviceProperties(0)->totalGlobalMem);
  cap_device_memory((2.0 * (int64_t{1} << 30)) / total, device);
  constexpr int64_t kBatch = int64_t{1} << 20;
  std::exception_ptr error;
  try {
    at::empty({int64_t{8} << 30}, at::TensorOptions().device(device));
  } catch (...) {
    error = std::current_exception();
  }
  const auto told = out_of_memory_error(error, *model, model_shape(config), kBatch, kBatch, device);
  cap_device_memory(1, device);
  ASSERT_NE(told, nullptr);
  try {
    std::rethrow_exception(told);
  } catch (const std::exception& message) {
    EXPECT_THAT(message.what(), HasSubstr("micro-batch of 1048576 (train.micro_batch_size): "));
    EXPECT_THAT(message.what(), HasSubstr(" would fit"));
  }
  EXPECT_GT(peak_device_memory(device), 0);
  for (const at::Tensor& parameter : model->parameters()) {
    EXPECT_FALSE(parameter.grad().defined());
  }
}

}  // namespace
}  // namespace longship::runtime
