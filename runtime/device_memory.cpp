#include "runtime/device_memory.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <cuda_runtime_api.h>

#include <string>
#include <vector>

#include "data/device_series.h"
#include "runtime/error.h"

namespace longship::runtime {

bool micro_batch_fits(models::Forecaster& model, const models::ModelShape& shape,
                      int64_t micro_batch_size, int64_t reserved, c10::Device device) {
  if (!device.is_cuda()) {
    return true;
  }
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : model.parameters()) gradients.push_back(parameter.grad());
  std::vector<at::Tensor> buffers;
  for (const at::Tensor& buffer : model.buffers()) buffers.push_back(buffer.clone());
  bool fits = true;
  try {
    const at::Tensor room =
        at::empty({reserved}, at::TensorOptions().dtype(at::kByte).device(device));
    models::Inputs inputs;
    inputs.past = at::zeros({micro_batch_size, shape.window, shape.inputs},
                            at::TensorOptions().device(device));
    model.forward(inputs).values.sum().backward();
    at::cuda::getCurrentCUDAStream().synchronize();
  } catch (const c10::OutOfMemoryError&) {
    fits = false;
  }
  {
    const at::NoGradGuard no_grad;
    size_t b = 0;
    for (const at::Tensor& buffer : model.buffers()) buffer.copy_(buffers[b++]);
  }
  size_t i = 0;
  for (const at::Tensor& parameter : model.parameters()) {
    if (!gradients[i++].defined()) parameter.mutable_grad().reset();
  }
  c10::cuda::CUDACachingAllocator::emptyCache();
  return fits;
}

bool resides_on_device(const data::Dataset& dataset, const std::string& residence,
                       c10::Device device) {
  if (!device.is_cuda() || residence == "host") return false;
  if (residence == "device") return true;
  constexpr int64_t kShare = 4;
  size_t free_bytes = 0;
  size_t all_bytes = 0;
  C10_CUDA_CHECK(cudaMemGetInfo(&free_bytes, &all_bytes));
  return data::DeviceSeries::bytes_for(dataset) <= static_cast<int64_t>(free_bytes) / kShare;
}

int64_t bytes_beside_micro_batches(const Config& config, const models::Forecaster& model,
                                   const data::Dataset& dataset, int ranks, c10::Device device) {
  if (!device.is_cuda()) return 0;
  int64_t elements = 0;
  for (const at::Tensor& parameter : model.parameters()) elements += parameter.numel();
  const int64_t states = config.optimizer.name == "adamw" ? 2
                         : config.optimizer.momentum > 0  ? 1
                                                          : 0;
  const bool half = config.comm.wire != "fp32";
  int64_t bytes = elements * (half ? 2 : 0);
  if (config.optimizer.shard) {
    bytes += elements / ranks * (4 * (states + 1) + (half ? 2 : 0));
  } else {
    bytes += elements * 4 * states;
  }
  if (resides_on_device(dataset, config.data.residence, device)) {
    bytes += data::DeviceSeries::bytes_for(dataset);
  }
  return bytes;
}

std::exception_ptr out_of_memory_error(const std::exception_ptr& error, models::Forecaster& model,
                                       const models::ModelShape& shape, int64_t batch_size,
                                       int64_t micro_batch_size, c10::Device device) {
  try {
    std::rethrow_exception(error);
  } catch (const c10::OutOfMemoryError&) {  // told below
  } catch (...) {
    return nullptr;
  }
  c10::cuda::CUDACachingAllocator::emptyCache();
  const std::string what = "the device's memory does not hold a micro-batch of " +
                           std::to_string(micro_batch_size) + " (train.micro_batch_size)";
  for (int64_t size = micro_batch_size - 1; size >= 1; --size) {
    if (batch_size % size == 0 && micro_batch_fits(model, shape, size, /*reserved=*/0, device)) {
      return std::make_exception_ptr(
          ConfigError(what + ": " + std::to_string(size) +
                      " would fit; start a new run with that, or with auto"));
    }
  }
  return std::make_exception_ptr(ConfigError(
      what + ", nor a single window: use a smaller model, or free the device's memory"));
}

void cap_device_memory(double fraction, c10::Device device) {
  if (device.is_cuda()) {
    c10::cuda::CUDACachingAllocator::setMemoryFraction(fraction, device.index());
  } else if (fraction < 1) {
    throw ConfigError(
        "train.memory_fraction needs a GPU, and this run trains on CPUs: leave it at 1");
  }
}

int64_t peak_device_memory(c10::Device device) {
  if (!device.is_cuda()) return 0;
  return c10::cuda::CUDACachingAllocator::getDeviceStats(device.index()).reserved_bytes[0].peak;
}

}  // namespace longship::runtime
