#include "runtime/control_channel.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

namespace longship::runtime {
namespace {
constexpr int64_t kLongestPeriod = 1000;  // steps
}

ControlChannel::ControlChannel(comm::Communicator& votes, std::chrono::milliseconds interval)
    : votes_(votes),
      interval_(interval),
      ballot_(at::zeros({kVotes + 1}, at::kDouble)),
      posted_at_(std::chrono::steady_clock::now()) {}

void ControlChannel::cast(Vote vote) {
  cast_[static_cast<size_t>(vote)] = true;
}

void ControlChannel::post() {
  const auto now = std::chrono::steady_clock::now();
  const double elapsed = std::chrono::duration<double, std::milli>(now - posted_at_).count();
  double* ballot = ballot_.mutable_data_ptr<double>();
  for (int i = 0; i < kVotes; ++i) {
    ballot[i] = cast_[static_cast<size_t>(i)] ? 1 : 0;
  }
  ballot[kVotes] = elapsed / static_cast<double>(std::max<int64_t>(steps_since_post_, 1));
  cast_.fill(false);
  posted_at_ = now;
  steps_since_post_ = 0;
  pending_ = votes_.all_reduce_async(ballot_, comm::ReduceOp::kMax);
  steps_until_due_ = period_;
}

Decision ControlChannel::collect() {
  pending_->wait();
  pending_.reset();
  const double* ballot = ballot_.const_data_ptr<double>();
  const auto agreed = [ballot](Vote vote) { return ballot[static_cast<int>(vote)] > 0; };
  const double per_step = std::max(ballot[kVotes], 1e-3);
  period_ = std::clamp<int64_t>(std::llround(static_cast<double>(interval_.count()) / per_step), 1,
                                kLongestPeriod);
  return {agreed(Vote::kStop), agreed(Vote::kSave), agreed(Vote::kError)};
}

Decision ControlChannel::after_step() {
  ++steps_since_post_;
  Decision decision;
  if (pending_) {
    if (--steps_until_due_ > 0) {
      return decision;
    }
    decision = collect();
  }
  post();
  return decision;
}

Decision ControlChannel::drain() {
  Decision first;
  if (pending_) {
    first = collect();
  }
  post();
  const Decision last = collect();
  return {first.stop || last.stop, first.save || last.save, first.error || last.error};
}

}  // namespace longship::runtime
