#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/bucket_layout.h"
#include "data/dataset.h"
#include "launcher/session.h"
#include "launcher/train_options.h"
#include "models/forecaster.h"
#include "runtime/checkpoint.h"
#include "runtime/config.h"
#include "runtime/context.h"
#include "runtime/logging.h"
#include "runtime/run_directory.h"

namespace longship::launcher {

// The run directory as all ranks know it.
struct RunPlace {
  std::string root;
  std::unique_ptr<runtime::RunDirectory> directory;  // rank 0 only
  bool existed = false;                              // a run was started here before
  std::vector<std::string> changes = {};             // of settings since, for the log; rank 0 only
  // The path of --resume that the run was started from, "" for none; rank 0 only. And whether this
  // start names the same one again, so that the run's own checkpoints are newer.
  std::string resumed_from = {};
  bool started_from_there = false;
};

// Chooses, creates and locks the run directory on rank 0, compares the settings with those that it
// holds, and makes sure that every rank can write below it. Collective. Throws AgreedError.
RunPlace open_run_directory(const TrainOptions& options, runtime::Config& config, Session& session);

// Throws AgreedError (kInput), naming a rank whose settings or data are not those of rank 0: hosts
// may have files of their own. Collective.
void agree_on_inputs(const runtime::Config& config, uint64_t data_fingerprint,
                     comm::Communicator& host, const std::string& host_name);

// What a run goes on from: nothing for a new one. Collective. Throws AgreedError, also where a
// checkpoint named by --resume is of a run with settings that cannot change.
std::optional<runtime::LoadedCheckpoint> find_checkpoint(const TrainOptions& options,
                                                         const runtime::Config& config,
                                                         const RunPlace& place,
                                                         runtime::Checkpointer& checkpointer,
                                                         runtime::Context& context);

// Settles train.micro_batch_size: as configured, as the checkpoint has it, or the largest that fits
// the device of every rank beside `reserved` bytes, which is tried with one forward and backward.
// Collective. Throws AgreedError where none is.
int64_t settle_micro_batch_size(const runtime::Config& config,
                                const std::optional<runtime::LoadedCheckpoint>& checkpoint,
                                models::Forecaster& model, int64_t reserved,
                                runtime::Context& context);

// The buckets to go on with, for equal bits: those of the checkpoint, where it was written by as
// many ranks and comm.bucket_mib has not changed.
std::optional<std::vector<comm::BucketLayout>> layout_to_keep(
    const std::optional<runtime::LoadedCheckpoint>& checkpoint, const runtime::Config& config,
    int ranks);

// "2 x NVIDIA H200", or "3 x CPU with 1 thread". Collective.
std::string describe_devices(const runtime::Context& context);

}  // namespace longship::launcher
