#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "launcher/session.h"
#include "models/forecaster.h"
#include "runtime/checkpoint.h"
#include "runtime/config.h"
#include "runtime/context.h"
#include "runtime/logging.h"
#include "runtime/run_directory.h"

namespace longship::launcher {

struct TrainOptions {
  std::string config_path;
  std::vector<std::string> overrides;  // words after --set
  std::string resume = "auto";         // auto, none or a path
};

// The run directory as all ranks know it.
struct RunPlace {
  std::string root;
  std::unique_ptr<runtime::RunDirectory> directory;  // rank 0 only
  bool existed = false;                              // a run was started here before
  std::vector<std::string> changes = {};             // of settings since, for the log; rank 0 only
};

// Chooses, creates and locks the run directory on rank 0, compares the settings with those that it
// holds, and makes sure that every rank can write below it. Collective. Throws AgreedError.
RunPlace open_run_directory(const TrainOptions& options, runtime::Config& config, Session& session);

// What a run goes on from: nothing for a new one. Collective. Throws AgreedError.
std::optional<runtime::LoadedCheckpoint> find_checkpoint(const TrainOptions& options,
                                                         runtime::Checkpointer& checkpointer,
                                                         runtime::Context& context);

// Settles train.micro_batch_size: as configured, as the checkpoint has it, or the largest that fits
// the device of every rank, which is tried with one forward and backward. Collective.
int64_t settle_micro_batch_size(const runtime::Config& config,
                                const std::optional<runtime::LoadedCheckpoint>& checkpoint,
                                models::Forecaster& model, runtime::Context& context);

// "2 x NVIDIA H200 on node-a", or "CPU, 2 ranks, 1 thread each". Collective.
std::string describe_devices(const runtime::Context& context);

}  // namespace longship::launcher
