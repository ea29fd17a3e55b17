#include "runtime/step_statistics.h"

#include <ATen/ATen.h>
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAGuard.h>

#include <chrono>

namespace longship::runtime {

struct StatisticsPipe::Entry {
  int64_t step = 0;
  std::chrono::steady_clock::time_point ended;
  at::Tensor numbers;
  std::chrono::steady_clock::time_point comm_begin;
  std::chrono::steady_clock::time_point comm_end;
  at::cuda::CUDAEvent comm_begin_event{cudaEventDefault};
  at::cuda::CUDAEvent comm_end_event{cudaEventDefault};
  at::cuda::CUDAEvent ready{cudaEventDisableTiming};
};

StatisticsPipe::StatisticsPipe(c10::Device device)
    : device_(device), current_(std::make_unique<Entry>()) {}

StatisticsPipe::~StatisticsPipe() = default;

void StatisticsPipe::communication_begins() {
  if (device_.is_cuda()) {
    current_->comm_begin_event.record();
  }
  current_->comm_begin = std::chrono::steady_clock::now();
}

void StatisticsPipe::communication_ends() {
  if (device_.is_cuda()) {
    current_->comm_end_event.record();
  }
  current_->comm_end = std::chrono::steady_clock::now();
}

void StatisticsPipe::push(int64_t step, const at::Tensor& numbers) {
  current_->step = step;
  current_->ended = std::chrono::steady_clock::now();
  if (device_.is_cuda()) {
    current_->numbers =
        at::empty({kColumns}, at::TensorOptions().dtype(at::kDouble).pinned_memory(true));
    current_->numbers.copy_(numbers, /*non_blocking=*/true);
    current_->ready.record();
  } else {
    current_->numbers = numbers.clone();
  }
  under_way_.push_back(std::move(current_));
  current_ = std::make_unique<Entry>();
}

std::optional<StepStatistics> StatisticsPipe::pop(bool all) {
  if (under_way_.empty() || (!all && under_way_.size() <= kStepsAhead)) {
    return std::nullopt;
  }
  const std::unique_ptr<Entry> entry = std::move(under_way_.front());
  under_way_.pop_front();
  StepStatistics statistics;
  if (device_.is_cuda()) {
    entry->ready.synchronize();
    statistics.exposed_comm_ms = entry->comm_begin_event.elapsed_time(entry->comm_end_event);
  } else {
    statistics.exposed_comm_ms =
        std::chrono::duration<double, std::milli>(entry->comm_end - entry->comm_begin).count();
  }
  const double* numbers = entry->numbers.const_data_ptr<double>();
  statistics.step = entry->step;
  statistics.ended = entry->ended;
  statistics.loss = numbers[kLoss];
  statistics.grad_norm = numbers[kGradNorm];
  statistics.skipped = numbers[kSkipped] != 0;
  statistics.loss_scale = numbers[kLossScale];
  statistics.lr = numbers[kLr];
  statistics.applied = static_cast<int64_t>(numbers[kApplied]);
  statistics.consecutive_skips = static_cast<int64_t>(numbers[kConsecutiveSkips]);
  return statistics;
}

}  // namespace longship::runtime
