#include "runtime/bucket_choice.h"

#include <ATen/Functions.h>
#include <ATen/cuda/CUDAContext.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "comm/gradient_hook.h"
#include "runtime/error.h"

namespace longship::runtime {
namespace {

// The fastest of a few: what disturbs a measurement only makes it longer.
double seconds_of(comm::Communicator& gradients, int64_t bytes, c10::Device device) {
  constexpr int kRepetitions = 4;
  const at::Tensor tensor =
      at::zeros({bytes / 4}, at::TensorOptions().dtype(at::kFloat).device(device));
  double best = 1e9;
  for (int i = 0; i < kRepetitions; ++i) {
    if (device.is_cuda()) at::cuda::getCurrentCUDAStream(device.index()).synchronize();
    const auto begin = std::chrono::steady_clock::now();
    gradients.all_reduce(tensor, comm::ReduceOp::kSum);
    if (device.is_cuda()) at::cuda::getCurrentCUDAStream(device.index()).synchronize();
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    best = std::min(best, time.count());
  }
  return best;
}

}  // namespace

CommunicatorSpeed measure_communicator(comm::Communicator& gradients, comm::Communicator& host,
                                       c10::Device device) {
  constexpr int64_t kTiny = 4096;
  constexpr int64_t kLarge = int64_t{8} << 20;
  const double tiny = seconds_of(gradients, kTiny, device);
  const double large = seconds_of(gradients, kLarge, device);
  const at::Tensor slowest = at::tensor({tiny, large}, at::kDouble);
  host.all_reduce(slowest, comm::ReduceOp::kMax);
  const double latency = slowest[0].item<double>();
  const double transfer = std::max(slowest[1].item<double>() - latency, 1e-9);
  return {latency, static_cast<double>(kLarge) / transfer};
}

int64_t bucket_bytes_for(const CommunicatorSpeed& speed, int64_t wire_bytes) {
  constexpr double kLatencies = 16;
  constexpr int64_t kFp32Bytes = 4;
  constexpr int64_t kLeast = int64_t{1} << 20;
  constexpr int64_t kMost = int64_t{64} << 20;
  const double on_wire = kLatencies * speed.latency_s * speed.bytes_per_s;
  const double bytes = std::clamp(on_wire * kFp32Bytes / static_cast<double>(wire_bytes),
                                  static_cast<double>(kLeast), static_cast<double>(kMost));
  return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(bytes)));
}

std::vector<int64_t> backward_order(models::Forecaster& model, const models::ModelShape& shape,
                                    PrecisionMode precision, c10::Device device) {
  std::vector<at::Tensor> parameters;
  for (const at::Tensor& parameter : model.parameters()) {
    if (parameter.requires_grad()) parameters.push_back(parameter);
  }
  std::vector<at::Tensor> buffers;
  for (const at::Tensor& buffer : model.buffers()) buffers.push_back(buffer.clone());

  std::mutex mutex;  // the engine may run hooks in a thread of its own
  std::vector<int64_t> order;
  for (size_t p = 0; p < parameters.size(); ++p) {
    // As in training, where gradients are added to what is there.
    parameters[p].mutable_grad() = at::zeros_like(parameters[p]);
    comm::set_gradient_hook(parameters[p], [&, p] {
      const std::lock_guard lock(mutex);
      order.push_back(static_cast<int64_t>(p));
    });
  }
  constexpr int64_t kSamples = 2;
  models::Inputs inputs;
  inputs.past =
      at::zeros({kSamples, shape.window, shape.inputs}, at::TensorOptions().device(device));
  at::Tensor sum;
  {
    const AutocastGuard autocast(precision, device);
    sum = model.forward(inputs).values.sum();
  }
  sum.backward();
  for (at::Tensor& parameter : parameters) {
    comm::set_gradient_hook(parameter, nullptr);
    parameter.mutable_grad().reset();
  }
  size_t i = 0;
  for (const auto& buffer : model.named_buffers()) {
    if (at::equal(buffer.value(), buffers[i++])) continue;
    throw ConfigError("the model changes its buffer " + buffer.key() +
                      " in training, and buffers are not combined over ranks: use layers without "
                      "running statistics (layer or group normalisation)");
  }
  for (auto p = static_cast<int64_t>(parameters.size()) - 1; p >= 0; --p) {
    if (std::find(order.begin(), order.end(), p) == order.end()) order.push_back(p);
  }
  return order;
}

}  // namespace longship::runtime
