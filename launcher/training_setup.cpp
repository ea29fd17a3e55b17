#include "launcher/training_setup.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/cuda/CUDAContext.h>

#include <filesystem>
#include <map>

#include "comm/text_collectives.h"
#include "launcher/run_settings.h"
#include "runtime/agreement.h"
#include "runtime/atomic_file.h"
#include "runtime/batch_plan.h"
#include "runtime/checkpoint_files.h"
#include "runtime/config_dump.h"
#include "runtime/config_load.h"
#include "runtime/device_memory.h"
#include "runtime/model_setup.h"
#include "runtime/trainer.h"

namespace longship::launcher {

namespace fs = std::filesystem;
using runtime::Config;

void agree_on_inputs(const Config& config, uint64_t data_fingerprint, comm::Communicator& host,
                     const std::string& host_name) {
  const std::string settings = runtime::dump_config(config);
  const std::string mine = runtime::hash_text(runtime::xxh3(settings.data(), settings.size())) +
                           " " + runtime::hash_text(data_fingerprint);
  const std::vector<std::string> all = comm::all_gather_text(host, mine);
  const std::vector<std::string> hosts = comm::all_gather_text(host, host_name);
  for (size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    const size_t cut = all[0].find(' ');
    const bool other_settings = all[rank].substr(0, cut) != all[0].substr(0, cut);
    throw runtime::AgreedError(
        runtime::ExitCode::kInput,
        "rank " + std::to_string(rank) + " (" + hosts[rank] + ") has other " +
            (other_settings ? "settings" : "training data") + " than rank 0 (" + hosts[0] +
            "): give every host the same " + (other_settings ? "run file" : "files in data.path"));
  }
}

RunPlace open_run_directory(const TrainOptions& options, Config& config, Session& session) {
  RunPlace place;
  runtime::collectively(*session.host, session.host_name, [&] {
    if (session.host->rank() != 0) {
      return;
    }
    const std::string stem = fs::path(options.config_path).stem().string();
    std::vector<std::string> made;
    if (config.run.name.empty()) {
      made = runtime::missing_folders(runtime::named_run_root(config.run.directory, ""));
    }
    place.root = runtime::choose_run_root(config.run.directory, config.run.name, stem,
                                          std::chrono::system_clock::now());
    if (config.run.name.empty()) made.push_back(place.root);
    place.directory = std::make_unique<runtime::RunDirectory>(place.root, std::move(made));
    place.existed = place.directory->has_config();
    if (place.existed) {
      refuse_to_overwrite(place.root, options.resume);
      const std::string before = place.directory->resumed_from();
      place.started_from_there = !before.empty() && before == started_from(options.resume, before);
      place.resumed_from = started_from(options.resume, before);
      place.changes = compare_with("the run in " + place.root,
                                   runtime::load_config(place.directory->config_path()),
                                   place.directory->chosen_micro_batch_size(), config);
    }
  });
  if (!place.existed) place.resumed_from = started_from(options.resume, "");
  place.root = comm::broadcast_text(*session.host, place.root, 0);
  place.started_from_there =
      comm::broadcast_text(*session.host, place.started_from_there ? "1" : "0", 0) == "1";
  place.existed = comm::broadcast_text(*session.host, place.existed ? "1" : "0", 0) == "1";
  config.run.name = fs::path(place.root).filename().string();
  runtime::collectively(*session.host, session.host_name,
                        [&] { runtime::probe_writable((fs::path(place.root) / "logs").string()); });
  return place;
}

std::optional<runtime::LoadedCheckpoint> find_checkpoint(const TrainOptions& options,
                                                         const Config& config,
                                                         const RunPlace& place,
                                                         runtime::Checkpointer& checkpointer,
                                                         runtime::Context& context) {
  std::optional<runtime::LoadedCheckpoint> loaded;
  if (options.resume == "none") {
    return loaded;
  }
  if (options.resume == "auto" || place.started_from_there) {
    loaded = checkpointer.load_newest();
    if (loaded && place.started_from_there) {
      context.log->info(
          "this run was started by --resume {} before and goes on from its own newest checkpoint; "
          "to "
          "start from there anew, give another run.name",
          options.resume);
    }
  }
  if (!loaded && options.resume != "auto") {
    loaded = checkpointer.load_path(options.resume);
    // It may be of another run, with a sample order or a normalisation of its own.
    runtime::collectively(context.host, context.host_name, [&] {
      compare_with_checkpoint(loaded->path, loaded->state.scalars, config);
    });
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
                                models::Forecaster& model, int64_t reserved,
                                runtime::Context& context) {
  if (config.train.micro_batch_size > 0) {
    return config.train.micro_batch_size;
  }
  if (checkpoint) {
    return micro_batch_size_of(checkpoint->state.scalars);
  }
  int64_t chosen = 0;
  runtime::collectively(context.host, context.host_name, [&] {
    chosen = runtime::choose_micro_batch_size(
        config.train.batch_size, context.size(), [&](int64_t size) {
          bool mine = false;
          runtime::collectively(context.host, context.host_name, [&] {
            mine = runtime::micro_batch_fits(model, runtime::model_shape(config), size, reserved,
                                             context.device);
          });
          const at::Tensor all = at::full({1}, mine ? 1 : 0, at::kLong);
          context.host.all_reduce(all, comm::ReduceOp::kMin);
          return all.item<int64_t>() == 1;
        });
  });
  return chosen;
}

std::optional<std::vector<comm::BucketLayout>> layout_to_keep(
    const std::optional<runtime::LoadedCheckpoint>& checkpoint, const Config& config, int ranks) {
  if (!checkpoint || settings_of(checkpoint->path, checkpoint->state.scalars).comm.bucket_mib !=
                         config.comm.bucket_mib) {
    return std::nullopt;
  }
  return runtime::stored_layout(checkpoint->state, ranks);
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
