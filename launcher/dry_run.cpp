#include "launcher/dry_run.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <system_error>

#include "comm/local_communicator.h"
#include "launcher/run_settings.h"
#include "runtime/batch_plan.h"
#include "runtime/checkpoint_folder.h"
#include "runtime/checkpoint_reader.h"
#include "runtime/config_load.h"
#include "runtime/dataset_setup.h"
#include "runtime/error.h"
#include "runtime/fp8_scaling.h"
#include "runtime/model_setup.h"
#include "runtime/run_directory.h"
#include "runtime/run_plan.h"
#include "runtime/trainer_parts.h"

namespace longship::launcher {
namespace {

namespace fs = std::filesystem;
using runtime::Config;

// The folder that would be made first, or the run's own, must take files.
void check_writable(const fs::path& root) {
  std::error_code error;
  fs::path folder = fs::absolute(root, error).lexically_normal();
  while (!fs::exists(folder, error) && folder.has_parent_path() && folder.parent_path() != folder) {
    folder = folder.parent_path();
  }
  const bool is_folder = fs::is_directory(folder, error);
  if (is_folder && ::access(folder.c_str(), W_OK | X_OK) == 0) return;
  throw runtime::ConfigError("the run cannot be in '" + root.string() + "': " + folder.string() +
                             (is_folder
                                  ? " cannot be written: " + std::generic_category().message(errno)
                                  : " is no folder") +
                             "; choose another run.directory");
}

// From the checkpoint that --resume names.
void start_from(const std::string& path, const Config& config, RunOutlook& outlook) {
  const std::string found = runtime::resolve_checkpoint(path, runtime::Prefer::kLatest);
  const runtime::Manifest manifest = runtime::read_manifest(found);
  compare_with_checkpoint(found, manifest.scalars, config);
  outlook.micro_batch_size = micro_batch_size_of(manifest.scalars);
  outlook.step = manifest.step;
  outlook.text += ", from step " + std::to_string(manifest.step) + " of " + found;
}

// The newest checkpoint of the run in `root`; where there is none it starts again.
void go_on_in(const runtime::RunRecords& records, RunOutlook& outlook) {
  outlook.text = "goes on in " + records.root();
  if (runtime::list_checkpoints(records.checkpoints_path()).checkpoints.empty()) {
    outlook.text += ", which has no checkpoint yet, at step 0";
    return;
  }
  const std::string found = runtime::resolve_checkpoint(records.root(), runtime::Prefer::kLatest);
  const runtime::Manifest manifest = runtime::read_manifest(found);
  outlook.micro_batch_size = micro_batch_size_of(manifest.scalars);
  outlook.step = manifest.step;
  outlook.text += " from " + fs::path(found).filename().string();
}

}  // namespace

RunOutlook look_ahead(const TrainOptions& options, const Config& config) {
  const bool from_path = options.resume != "auto" && options.resume != "none";
  RunOutlook outlook;
  const std::string root = runtime::named_run_root(
      config.run.directory, config.run.name.empty()
                                ? fs::path(options.config_path).stem().string() + "-DATE-TIME"
                                : config.run.name);
  check_writable(root);
  const runtime::RunRecords records(root);
  if (!config.run.name.empty() && records.has_config()) {
    refuse_to_overwrite(root, options.resume);
    compare_with("the run in " + root, runtime::load_config(records.config_path()),
                 records.chosen_micro_batch_size(), config);
    outlook.micro_batch_size = records.chosen_micro_batch_size();
    const std::string before = records.resumed_from();
    if (!from_path || before == started_from(options.resume, before)) {
      go_on_in(records, outlook);
      return outlook;
    }
    outlook.text = "goes on in " + root;
  } else {
    runtime::refuse_foreign_folder(root);
    outlook.text = "a new one in " + root;
  }
  if (from_path) start_from(options.resume, config, outlook);
  return outlook;
}

int dry_run(const TrainOptions& options) {
  const int ranks = options.ranks;
  const Config config = runtime::load_config(options.config_path, options.overrides);
  const RunOutlook outlook = look_ahead(options, config);
  const auto dataset = data::Dataset::open(runtime::dataset_spec(config));
  const std::shared_ptr<models::Forecaster> model =
      runtime::make_model(config, runtime::Weights::kAny);
  runtime::check_fp8(config, *model);
  int64_t micro_batch_size = config.train.micro_batch_size;
  if (micro_batch_size == 0) micro_batch_size = outlook.micro_batch_size;
  if (micro_batch_size == 0) {
    micro_batch_size = runtime::choose_micro_batch_size(config.train.batch_size, ranks,
                                                        [](int64_t) { return true; });
  }
  const runtime::BatchPlan batches = runtime::make_batch_plan(
      config.train, micro_batch_size, dataset->windows(data::Split::kTrain), 0, ranks);
  const std::unique_ptr<comm::Communicator> alone = comm::make_local_communicator();
  const auto reducer = runtime::make_reducer(config, *model, *alone);
  runtime::RunPlan plan = runtime::make_run_plan({config, *dataset, *model, batches, *reducer,
                                                  ranks, "not looked for in a dry run",
                                                  config.precision.mode, config.comm.backend});
  plan.rows.insert(plan.rows.begin(), {"run", outlook.text});
  for (const std::string& note : dataset->notes()) {
    std::cout << note << '\n';
  }
  for (const std::string& line : plan.lines()) {
    std::cout << line << '\n';
  }
  for (const std::string& line : runtime::plan_advice(config, *dataset)) {
    std::cout << "note: " << line << '\n';
  }
  if (outlook.step >= batches.total_steps) {
    std::cout << "note: the run is finished: nothing would be done; raise train.epochs or "
                 "train.steps to go on\n";
  }
  const std::string& mode = config.precision.mode;
  const bool needs_gpu = config.comm.backend == "nccl" || mode == "tf32" || mode == "fp8";
  std::cout << "The configuration is valid; nothing was started or written, and no device was "
               "looked for"
            << (needs_gpu
                    ? ": comm.backend nccl and precision.mode tf32 and fp8 need GPUs (longship "
                      "doctor shows them)"
                    : "")
            << ".\n";
  return 0;
}

}  // namespace longship::launcher
