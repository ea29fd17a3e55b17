#include "launcher/training_setup.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/cuda/CUDAContext.h>

#include <filesystem>
#include <map>

#include "comm/text_collectives.h"
#include "runtime/agreement.h"
#include "runtime/atomic_file.h"
#include "runtime/batch_plan.h"
#include "runtime/config_dump.h"
#include "runtime/config_load.h"
#include "runtime/device_memory.h"
#include "runtime/model_setup.h"

namespace longship::launcher {
namespace {

namespace fs = std::filesystem;
using runtime::Config;
using runtime::ConfigError;

// A run goes on with the settings that it was started with, but for those that may change.
// Returns those that did, as "key (old there, new now)".
std::vector<std::string> compare_with_stored(const runtime::RunDirectory& directory,
                                             const Config& config) {
  const Config stored = runtime::load_config(directory.config_path());
  std::string refused;
  std::vector<std::string> changes;
  for (const runtime::ConfigChange& change : runtime::compare_configs(stored, config)) {
    const std::string text =
        change.key + " (" + change.old_value + " there, " + change.new_value + " now)";
    const bool same = change.key == "train.micro_batch_size" &&
                      stored.train.micro_batch_size == 0 &&
                      directory.chosen_micro_batch_size() == config.train.micro_batch_size;
    if (!change.allowed && !same) {
      refused += (refused.empty() ? "" : ", ") + text;
    }
    changes.push_back(text);
  }
  if (!refused.empty()) {
    throw ConfigError("the run in " + directory.root() +
                      " was started with other settings that cannot change on resume: " + refused +
                      "; give the old values, or another run.name for a new run");
  }
  return changes;
}

}  // namespace

RunPlace open_run_directory(const TrainOptions& options, Config& config, Session& session) {
  RunPlace place;
  runtime::collectively(*session.host, session.host_name, [&] {
    if (session.host->rank() != 0) {
      return;
    }
    const std::string stem = fs::path(options.config_path).stem().string();
    place.root = runtime::choose_run_root(config.run.directory, config.run.name, stem,
                                          std::chrono::system_clock::now());
    place.directory = std::make_unique<runtime::RunDirectory>(place.root);
    place.existed = place.directory->has_config();
    if (place.existed && options.resume == "none") {
      throw ConfigError("there is a run in " + place.root +
                        " already, and --resume none never overwrites one: give another run.name, "
                        "or leave --resume at auto to go on with it");
    }
    if (place.existed) {
      place.changes = compare_with_stored(*place.directory, config);
    }
  });
  place.root = comm::broadcast_text(*session.host, place.root, 0);
  place.existed = comm::broadcast_text(*session.host, place.existed ? "1" : "0", 0) == "1";
  config.run.name = fs::path(place.root).filename().string();
  runtime::collectively(*session.host, session.host_name,
                        [&] { runtime::probe_writable((fs::path(place.root) / "logs").string()); });
  return place;
}

std::optional<runtime::LoadedCheckpoint> find_checkpoint(const TrainOptions& options,
                                                         runtime::Checkpointer& checkpointer,
                                                         runtime::Context& context) {
  std::optional<runtime::LoadedCheckpoint> loaded;
  if (options.resume == "none") {
    return loaded;
  }
  if (options.resume == "auto") {
    loaded = checkpointer.load_newest();
  } else {
    loaded = checkpointer.load_path(options.resume);
  }
  if (loaded && context.leader()) {
    for (const std::string& message : loaded->messages) {
      context.log->warn("{}", message);
    }
  }
  return loaded;
}

int64_t settle_micro_batch_size(const Config& config,
                                const std::optional<runtime::LoadedCheckpoint>& checkpoint,
                                models::Forecaster& model, runtime::Context& context) {
  if (config.train.micro_batch_size > 0) {
    return config.train.micro_batch_size;
  }
  if (checkpoint) {
    return checkpoint->state.scalars.at("order").at("micro_batch_size").get<int64_t>();
  }
  return runtime::choose_micro_batch_size(
      config.train.batch_size, context.size(), [&](int64_t size) {
        const bool mine =
            runtime::micro_batch_fits(model, runtime::model_shape(config), size, context.device);
        const at::Tensor all = at::full({1}, mine ? 1 : 0, at::kLong);
        context.host.all_reduce(all, comm::ReduceOp::kMin);
        return all.item<int64_t>() == 1;
      });
}

std::string describe_devices(const runtime::Context& context) {
  std::string mine = "CPU with " + std::to_string(at::get_num_threads()) +
                     (at::get_num_threads() == 1 ? " thread" : " threads");
  if (context.device.is_cuda()) {
    mine = at::cuda::getDeviceProperties(context.device.index())->name;
  }
  std::map<std::string, int> counts;
  for (const std::string& one : comm::all_gather_text(context.host, mine)) {
    ++counts[one];
  }
  std::string text;
  for (const auto& [name, count] : counts) {
    text += (text.empty() ? "" : ", ") + std::to_string(count) + " x " + name;
  }
  return text;
}

}  // namespace longship::launcher
