#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "data/batch_loader.h"
#include "runtime/config.h"

namespace longship::runtime {

// How the samples of a run divide into steps and micro-batches, and which of them a rank takes.
// Only the last two numbers depend on the rank.
struct BatchPlan {
  int64_t windows = 0;     // training windows, one epoch
  int64_t batch_size = 0;  // samples of an optimizer step over all ranks
  int64_t micro_batch_size = 0;
  int64_t micro_batches = 0;      // G = batch_size / micro_batch_size
  int64_t end_position = 0;       // samples of the whole run
  int64_t total_steps = 0;        // ceil(end_position / batch_size)
  int64_t first_micro_batch = 0;  // this rank's run of micro-batches
  int64_t end_micro_batch = 0;

  // Samples of a step that are not padding; `step` counts from 0.
  int64_t samples(int64_t step) const;
  // Epochs done after `steps` steps.
  double epoch(int64_t steps) const;
  int64_t micro_steps() const { return end_micro_batch - first_micro_batch; }
  // "1024 = 8 micro-batches x 128, 4 a rank on 2 ranks"
  std::string describe(int ranks) const;
  data::LoaderPlan loader_plan(int64_t first_step) const;
};

// The plan of one rank. micro_batch_size must be settled (not 0). Throws ConfigError when it does
// not divide the batch, when there are more ranks than micro-batches or more ranks than windows,
// with the numbers that would do.
BatchPlan make_batch_plan(const Config::Train& train, int64_t micro_batch_size, int64_t windows,
                          int rank, int ranks);

// What `micro_batch_size: auto` becomes: the largest divisor of the batch size that leaves each
// rank at least one micro-batch and that `fits` accepts. Throws ConfigError when none does.
int64_t choose_micro_batch_size(int64_t batch_size, int ranks,
                                const std::function<bool(int64_t)>& fits);

}  // namespace longship::runtime
