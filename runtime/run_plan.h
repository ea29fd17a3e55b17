#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "comm/gradient_reducer.h"
#include "data/dataset.h"
#include "models/forecaster.h"
#include "runtime/batch_plan.h"
#include "runtime/config.h"

namespace longship::runtime {

// What a run will do, as names and values for the table at the start and for --dry-run.
struct RunPlan {
  std::vector<std::pair<std::string, std::string>> rows;

  // Aligned lines, one a row.
  std::vector<std::string> lines() const;
};

struct RunPlanFacts {
  const Config& config;
  const data::Dataset& dataset;
  const models::Forecaster& model;
  const BatchPlan& batches;
  const comm::GradientReducer& reducer;
  int ranks = 1;
  std::string devices;    // "2 x NVIDIA H200", "CPU, 1 thread a rank"
  std::string precision;  // "bf16"
  std::string backend;    // of the gradients' communicator
};

// What a user should know about a plan that is valid all the same, one line each.
std::vector<std::string> plan_advice(const Config& config, const data::Dataset& dataset);

RunPlan make_run_plan(const RunPlanFacts& facts);

// "1.5 MiB"
std::string bytes_text(double bytes);

}  // namespace longship::runtime
