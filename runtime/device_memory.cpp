#include "runtime/device_memory.h"

#include <ATen/Functions.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDACachingAllocator.h>

#include <string>
#include <vector>

#include "runtime/error.h"

namespace longship::runtime {

bool micro_batch_fits(models::Forecaster& model, const models::ModelShape& shape,
                      int64_t micro_batch_size, c10::Device device) {
  if (!device.is_cuda()) {
    return true;
  }
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : model.parameters()) gradients.push_back(parameter.grad());
  bool fits = true;
  try {
    models::Inputs inputs;
    inputs.past = at::zeros({micro_batch_size, shape.window, shape.inputs},
                            at::TensorOptions().device(device));
    model.forward(inputs).values.sum().backward();
    at::cuda::getCurrentCUDAStream().synchronize();
  } catch (const c10::OutOfMemoryError&) {
    fits = false;
  }
  size_t i = 0;
  for (const at::Tensor& parameter : model.parameters()) {
    if (!gradients[i++].defined()) parameter.mutable_grad().reset();
  }
  c10::cuda::CUDACachingAllocator::emptyCache();
  return fits;
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
    if (batch_size % size == 0 && micro_batch_fits(model, shape, size, device)) {
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
  }
}

int64_t peak_device_memory(c10::Device device) {
  if (!device.is_cuda()) return 0;
  return c10::cuda::CUDACachingAllocator::getDeviceStats(device.index()).reserved_bytes[0].peak;
}

}  // namespace longship::runtime
