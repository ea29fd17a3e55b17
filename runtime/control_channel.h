#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>

#include "comm/communicator.h"

namespace longship::runtime {

// Local events that all ranks must act on together.
enum class Vote : int {
  kStop = 0,   // a signal or a deadline: save and end
  kSave = 1,   // time for a checkpoint
  kError = 2,  // this rank cannot go on
};

// What the ranks agreed on for this step.
struct Decision {
  bool stop = false;
  bool save = false;
  bool error = false;
};

// Agrees on local events without stalling a step: about every 50 ms of steps the ranks start a
// small nonblocking reduction of their votes, and act on its result a fixed number of steps later,
// when it has long arrived. That number follows from the slowest rank's time a step, which travels
// with the votes, so that every rank computes the same one.
class ControlChannel {
 public:
  // `votes` is used by nothing else and must outlive the channel.
  explicit ControlChannel(comm::Communicator& votes,
                          std::chrono::milliseconds interval = std::chrono::milliseconds(50));

  // Casts a vote; it is agreed on within two intervals and then forgotten.
  void cast(Vote vote);

  // Collective: every rank calls it once after every step. Blocks only when the step at which a
  // result is due has come and the result has not.
  Decision after_step();

  // Ends the reduction under way, and agrees at once on votes not yet posted. Collective.
  Decision drain();

 private:
  static constexpr int kVotes = 3;
  void post();
  Decision collect();

  comm::Communicator& votes_;
  std::chrono::milliseconds interval_;
  std::array<bool, kVotes> cast_{};
  at::Tensor ballot_;  // (kVotes + 1,) float64: votes, milliseconds a step
  std::unique_ptr<comm::Work> pending_;
  int64_t steps_until_due_ = 0;
  int64_t period_ = 1;
  int64_t steps_since_post_ = 0;
  std::chrono::steady_clock::time_point posted_at_;
};

}  // namespace longship::runtime
