#pragma once

#include <cstdint>
#include <string>

#include "launcher/train_options.h"
#include "runtime/config.h"

namespace longship::launcher {

// What a start would find in the place of its run.
struct RunOutlook {
  std::string text;              // "a new one in runs/a", "goes on in runs/a from step 40 of ..."
  int64_t micro_batch_size = 0;  // that the run or checkpoint has; 0: not known
  int64_t step = 0;              // that it goes on from
};

// Looks without writing anything or verifying a checkpoint. Throws what the start would:
// ConfigError for a folder that cannot be used and settings that cannot change, CheckpointError for
// a checkpoint that is none.
RunOutlook look_ahead(const TrainOptions& options, const runtime::Config& config);

// `train --dry-run`: checks all that can be checked without MPI, GPUs or a run directory, and
// prints the plan. Returns the exit code; throws as a start would.
int dry_run(const TrainOptions& options);

}  // namespace longship::launcher
