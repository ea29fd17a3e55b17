#include "runtime/step_statistics.h"

#include <ATen/ATen.h>
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAGuard.h>

#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "comm/error.h"
#include "runtime/step_finish.h"

namespace longship::runtime {

struct StatisticsPipe::Entry {
  int64_t step = 0;
  std::chrono::steady_clock::time_point ended;
  at::Tensor numbers;
  at::cuda::CUDAEvent ready{cudaEventDisableTiming};
};

StatisticsPipe::StatisticsPipe(c10::Device device, std::chrono::seconds timeout)
    : device_(device), timeout_(timeout) {}

StatisticsPipe::~StatisticsPipe() = default;

// CUDA has no wait with a limit. The host has nothing to do meanwhile and two steps in hand.
void StatisticsPipe::wait(const Entry& entry) const {
  const auto begin = std::chrono::steady_clock::now();
  while (!entry.ready.query()) {
    const auto waited = std::chrono::steady_clock::now() - begin;
    if (waited > timeout_) {
      throw comm::CommError(comm::CommError::Kind::kPeer,
                            "step " + std::to_string(entry.step) + " did not end within " +
                                std::to_string(timeout_.count()) +
                                " s (comm.timeout_s): another rank stopped or the network failed");
    }
    if (waited < std::chrono::microseconds(20)) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }
}

void StatisticsPipe::push(int64_t step, const at::Tensor& numbers) {
  auto entry = std::make_unique<Entry>();
  entry->step = step;
  entry->ended = std::chrono::steady_clock::now();
  if (device_.is_cuda()) {
    if (free_.empty()) {
      entry->numbers =
          at::empty(numbers.sizes(), at::TensorOptions().dtype(at::kDouble).pinned_memory(true));
    } else {  // pinning more memory would make the GPU's streams wait for each other
      entry->numbers = std::move(free_.back());
      free_.pop_back();
    }
    entry->numbers.copy_(numbers, /*non_blocking=*/true);
    entry->ready.record();
  } else {
    entry->numbers = numbers.clone();
  }
  under_way_.push_back(std::move(entry));
}

std::optional<StepStatistics> StatisticsPipe::pop(bool all) {
  if (under_way_.empty() || (!all && under_way_.size() <= kStepsAhead)) {
    return std::nullopt;
  }
  const std::unique_ptr<Entry> entry = std::move(under_way_.front());
  under_way_.pop_front();
  if (device_.is_cuda()) {
    wait(*entry);
  }
  const double* numbers = entry->numbers.const_data_ptr<double>();
  StepStatistics statistics;
  statistics.step = entry->step;
  statistics.ended = entry->ended;
  statistics.loss = numbers[StepFinish::kLoss];
  statistics.grad_norm = numbers[StepFinish::kGradNorm];
  statistics.skipped = numbers[StepFinish::kSkipped] != 0;
  statistics.loss_scale = numbers[StepFinish::kLossScale];
  statistics.lr = numbers[StepFinish::kLr];
  statistics.applied = static_cast<int64_t>(numbers[StepFinish::kApplied]);
  statistics.consecutive_skips = static_cast<int64_t>(numbers[StepFinish::kConsecutiveSkips]);
  statistics.exposed_comm_ms = numbers[StepFinish::kExposedCommMs];
  if (device_.is_cuda()) free_.push_back(entry->numbers);
  return statistics;
}

}  // namespace longship::runtime
