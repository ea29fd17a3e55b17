#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

namespace longship::runtime {

// What one optimizer step left behind, on the host.
struct StepStatistics {
  int64_t step = 0;       // 1-based
  double loss = 0;        // this rank's share of the step's mean loss
  double grad_norm = 0;   // of the unscaled, unclipped gradient of the global batch
  bool skipped = false;   // overflow: the optimizer did nothing
  double loss_scale = 1;  // that this step used
  double lr = 0;          // that this step used
  int64_t applied = 0;    // optimizer steps applied so far
  int64_t consecutive_skips = 0;
  double exposed_comm_ms = 0;                   // time in which the step waited for communication
  std::chrono::steady_clock::time_point ended;  // when the host was done with the step
};

// Brings step statistics from the device to the host without stalling it: each step's numbers are
// copied to pinned memory behind the step, and read when a later step asks, two steps on at the
// earliest. Waiting for them is the one wait of the steady loop; it also keeps the host from
// running further ahead than that. It is a wait with a limit: on a GPU a rank that is gone shows
// only as a collective that does not end.
class StatisticsPipe {
 public:
  static constexpr size_t kStepsAhead = 2;
  StatisticsPipe(c10::Device device, std::chrono::seconds timeout);
  ~StatisticsPipe();
  StatisticsPipe(const StatisticsPipe&) = delete;
  StatisticsPipe& operator=(const StatisticsPipe&) = delete;

  // numbers: float64 (StepFinish::kColumns,) on the device, free to change after the call.
  void push(int64_t step, const at::Tensor& numbers);

  // The oldest step's statistics once more than kStepsAhead steps are under way, or, with `all`,
  // while there are any; nothing otherwise. Throws CommError (kPeer) when the step does not end
  // within the time limit.
  std::optional<StepStatistics> pop(bool all);

 private:
  struct Entry;
  void wait(const Entry& entry) const;

  c10::Device device_;
  std::chrono::seconds timeout_;
  std::deque<std::unique_ptr<Entry>> under_way_;
  std::vector<at::Tensor> free_;  // pinned memory of steps that have been read
};

}  // namespace longship::runtime
