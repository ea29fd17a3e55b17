#include "runtime/batch_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/error.h"

namespace longship::runtime {

int64_t BatchPlan::samples(int64_t step) const {
  return std::clamp<int64_t>(end_position - step * batch_size, 0, batch_size);
}

double BatchPlan::epoch(int64_t steps) const {
  const int64_t position = std::min(steps * batch_size, end_position);
  return static_cast<double>(position) / static_cast<double>(windows);
}

std::string BatchPlan::describe(int ranks) const {
  const int64_t fewest = micro_batches / ranks;
  const int64_t most = (micro_batches + ranks - 1) / ranks;
  const std::string share = fewest == most ? std::to_string(most)
                                           : std::to_string(fewest) + " or " + std::to_string(most);
  return std::to_string(batch_size) + " = " + std::to_string(micro_batches) +
         (micro_batches == 1 ? " micro-batch x " : " micro-batches x ") +
         std::to_string(micro_batch_size) + ", " + share + " a rank on " + std::to_string(ranks) +
         (ranks == 1 ? " rank" : " ranks");
}

data::LoaderPlan BatchPlan::loader_plan(int64_t first_step) const {
  data::LoaderPlan plan;
  plan.first_step = first_step;
  plan.end_step = total_steps;
  plan.first_micro_batch = first_micro_batch;
  plan.end_micro_batch = end_micro_batch;
  plan.batch_size = batch_size;
  plan.micro_batch_size = micro_batch_size;
  plan.end_position = end_position;
  return plan;
}

BatchPlan make_batch_plan(const Config::Train& train, int64_t micro_batch_size, int64_t windows,
                          int rank, int ranks) {
  if (train.batch_size % micro_batch_size != 0) {
    throw ConfigError("train.micro_batch_size " + std::to_string(micro_batch_size) +
                      " does not divide train.batch_size " + std::to_string(train.batch_size));
  }
  if (windows < ranks) {
    throw ConfigError("the training part holds " + std::to_string(windows) +
                      " windows, fewer than the " + std::to_string(ranks) +
                      " ranks: start fewer ranks, or shorten data.window, data.horizon or "
                      "data.stride");
  }
  BatchPlan plan;
  plan.windows = windows;
  plan.batch_size = train.batch_size;
  plan.micro_batch_size = micro_batch_size;
  plan.micro_batches = train.batch_size / micro_batch_size;
  if (ranks > plan.micro_batches) {
    int64_t fitting = std::max<int64_t>(train.batch_size / ranks, 1);
    while (train.batch_size % fitting != 0) {
      --fitting;
    }
    throw ConfigError("there are more ranks (" + std::to_string(ranks) + ") than micro-batches (" +
                      std::to_string(plan.micro_batches) + " = train.batch_size " +
                      std::to_string(train.batch_size) + " / train.micro_batch_size " +
                      std::to_string(micro_batch_size) + "): start at most " +
                      std::to_string(plan.micro_batches) +
                      " ranks, or set train.micro_batch_size to " + std::to_string(fitting) +
                      " for a new run");
  }
  if (train.steps > std::numeric_limits<int64_t>::max() / train.batch_size) {
    throw ConfigError("train.steps " + std::to_string(train.steps) + " times train.batch_size " +
                      std::to_string(train.batch_size) +
                      " are more samples than can be counted: set it lower");
  }
  plan.end_position =
      train.steps > 0
          ? train.steps * train.batch_size
          : std::max<int64_t>(std::llround(train.epochs * static_cast<double>(windows)), 1);
  plan.total_steps = (plan.end_position + plan.batch_size - 1) / plan.batch_size;
  plan.first_micro_batch = plan.micro_batches * rank / ranks;
  plan.end_micro_batch = plan.micro_batches * (rank + 1) / ranks;
  return plan;
}

int64_t choose_micro_batch_size(int64_t batch_size, int ranks,
                                const std::function<bool(int64_t)>& fits) {
  if (ranks > batch_size) {
    throw ConfigError("train.batch_size " + std::to_string(batch_size) +
                      " cannot feed every one of " + std::to_string(ranks) +
                      " ranks: raise it, or start fewer ranks");
  }
  for (int64_t size = batch_size / ranks; size >= 1; --size) {
    if (batch_size % size == 0 && fits(size)) {
      return size;
    }
  }
  throw ConfigError("not even one sample fits into the device's memory: use a smaller model");
}

}  // namespace longship::runtime
