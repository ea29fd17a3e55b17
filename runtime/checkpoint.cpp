#include "runtime/checkpoint.h"

#include <torch/cuda.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <stdexcept>
#include <utility>

#include "comm/host_name.h"
#include "comm/text_collectives.h"
#include "runtime/agreement.h"
#include "runtime/checkpoint_patience.h"
#include "runtime/checkpoint_writer.h"

namespace longship::runtime {

namespace fs = std::filesystem;

namespace {

using nlohmann::json;

std::string join(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += (all.empty() ? "" : "; ") + text;
  return all;
}

// What a rank wrote, as text for the others, with a hash of the names, shapes and dtypes that it
// believes the state to have.
std::string part_text(const std::vector<Manifest::File>& written,
                      const std::vector<Manifest::Piece>& pieces, Manifest layout) {
  layout.created.clear();
  layout.scalars = json::object();
  const std::string text = manifest_text(layout);
  json part = {{"layout", hash_text(xxh3(text.data(), text.size()))},
               {"files", json::array()},
               {"pieces", json::array()}};
  for (const Manifest::File& file : written) {
    part["files"].push_back({file.name, file.digest.bytes, file.digest.xxh3});
  }
  for (const Manifest::Piece& piece : pieces) {
    part["pieces"].push_back(
        {piece.parameter, piece.state, piece.begin, piece.end, piece.file, piece.key});
  }
  return part.dump();
}

// The files and pieces of all ranks. Throws CheckpointError when their states differ in layout.
void collect_parts(const std::vector<std::string>& parts, Manifest& manifest) {
  const json first = json::parse(parts.front());
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    const json part = json::parse(parts[rank]);
    if (part["layout"] != first["layout"]) {
      throw CheckpointError("the training state of rank " + std::to_string(rank) +
                            " has other tensors than that of rank 0; all ranks must train the "
                            "same model");
    }
    for (const json& file : part["files"]) {
      manifest.files.push_back({file[0], {file[1], file[2]}});
    }
    for (const json& piece : part["pieces"]) {
      manifest.pieces.push_back({piece[0], piece[1], piece[2], piece[3], piece[4], piece[5]});
    }
  }
}

void wait_for_devices(const TrainingState& state) {
  std::set<int> devices;
  const auto add = [&](const at::Tensor& tensor) {
    if (tensor.is_cuda()) devices.insert(tensor.get_device());
  };
  for (const NamedTensor& entry : state.weights) add(entry.tensor);
  for (const NamedTensor& entry : state.extra) add(entry.tensor);
  for (const OptimizerEntry& entry : state.optimizer) add(entry.tensor);
  for (int device : devices) torch::cuda::synchronize(device);
}

}  // namespace

Checkpointer::Checkpointer(std::string folder, comm::Communicator& host, int64_t keep)
    : Checkpointer(std::move(folder), host, keep, Hooks{}) {}

Checkpointer::Checkpointer(std::string folder, comm::Communicator& host, int64_t keep, Hooks hooks)
    : folder_(std::move(folder)),
      host_(host),
      host_name_(comm::host_name()),
      keep_(keep),
      hooks_(std::move(hooks)) {
  if (keep < 0) throw std::invalid_argument("keep must not be negative");
  while (folder_.size() > 1 && folder_.back() == '/') folder_.pop_back();
}

void Checkpointer::notice(const std::string& text) const {
  if (host_.rank() == 0 && hooks_.notice) hooks_.notice(text);
}

void Checkpointer::collective_work(const std::function<void()>& work) {
  collectively_with_patience(host_, host_name_, work,
                             [this](const std::string& text) { notice("checkpoint: " + text); });
}

// On rank 0: makes the folder and, once, cleans up after jobs that were killed.
void Checkpointer::prepare_folder() {
  std::error_code error;
  if (!fs::exists(folder_, error)) make_folder(*hooks_.files, folder_);
  if (tidied_) return;
  for (const std::string& text : tidy_folder(*hooks_.files, folder_)) notice(text);
  tidied_ = true;
}

void Checkpointer::probe() {
  const bool leader = host_.rank() == 0;
  const std::string name =
      comm::broadcast_text(host_, leader ? ".partial-probe-" + nonce() : std::string(), 0);
  const std::string path = folder_ + "/" + name;
  try {
    collective_work([&] {
      if (!leader) return;
      prepare_folder();
      make_folder(*hooks_.files, path);
    });
    collective_work([&] {
      if (!fs::is_directory(path)) {
        throw CheckpointError("a folder that rank 0 made in " + folder_ +
                              " is not there; checkpoints must be on a file system that all hosts "
                              "share");
      }
      write_text_file(*hooks_.files, path + "/rank-" + std::to_string(host_.rank()), "probe\n");
    });
  } catch (const AgreedError&) {
    if (leader) {
      try {
        remove_tree(*hooks_.files, path);
      } catch (const Error& second) {
        notice(second.what());
      }
    }
    throw;
  }
  collective_work([&] {
    if (leader) remove_tree(*hooks_.files, path);
  });
}

std::string Checkpointer::save(const TrainingState& state, bool is_best) {
  wait_for_devices(state);
  const std::string name = checkpoint_name(state.step);
  const std::string temporary = comm::broadcast_text(
      host_, host_.rank() == 0 ? ".partial-" + name + "-" + nonce() : std::string(), 0);
  try {
    return write_all(state, is_best, temporary);
  } catch (const AgreedError& error) {
    if (host_.rank() == 0) {
      try {
        tidy_folder(*hooks_.files, folder_);
      } catch (const Error& second) {
        notice(second.what());
      }
    }
    throw AgreedError(error.code(), "saving the checkpoint of step " + std::to_string(state.step) +
                                        " failed; older ones are untouched: " + error.what());
  }
}

std::string Checkpointer::write_all(const TrainingState& state, bool is_best,
                                    const std::string& temporary) {
  const bool leader = host_.rank() == 0;
  const std::string path = folder_ + "/" + temporary;
  collective_work([&] {
    if (!leader) return;
    check_scalars(state.scalars);
    prepare_folder();
    make_folder(*hooks_.files, path);
  });

  std::string part;
  collective_work([&] {
    if (!fs::is_directory(path)) {
      throw CheckpointError("the folder " + path +
                            " that rank 0 made is not there; checkpoints must be on a file system "
                            "that all hosts share");
    }
    std::vector<Manifest::File> written =
        write_optimizer_share(*hooks_.files, path, state.optimizer, host_.rank(), host_.size());
    if (leader) {
      std::vector<Manifest::File> weights = write_weights(*hooks_.files, path, state);
      written.insert(written.begin(), weights.begin(), weights.end());
    }
    part = part_text(written, optimizer_share(state.optimizer, host_.rank(), host_.size()),
                     describe_state(state, host_.size()));
  });

  const std::vector<std::string> parts = comm::all_gather_text(host_, part);
  collective_work([&] {
    if (leader) finish(state, is_best, temporary, parts);
  });
  return folder_ + "/" + checkpoint_name(state.step);
}

// On rank 0, when all files are there.
void Checkpointer::finish(const TrainingState& state, bool is_best, const std::string& temporary,
                          const std::vector<std::string>& parts) {
  const std::string path = folder_ + "/" + temporary;
  const std::string name = checkpoint_name(state.step);
  Manifest manifest = describe_state(state, host_.size());
  collect_parts(parts, manifest);
  for (const Manifest::File& file : manifest.files) {
    if (InputFile(path + "/" + file.name).size() != file.digest.bytes) {
      throw CheckpointError(path + "/" + file.name +
                            " has another size on rank 0's host than on "
                            "the host that wrote it; checkpoints must be on a file system that "
                            "all hosts share");
    }
  }
  const std::vector<std::string> uncovered = uncovered_optimizer(manifest);
  if (!uncovered.empty()) throw CheckpointError(uncovered.front());

  write_text_file(*hooks_.files, path + "/" + kManifestFile, manifest_text(manifest));
  sync_folder(*hooks_.files, path);
  publish_checkpoint(*hooks_.files, folder_, temporary, name);
  set_later_ones_aside(state.step);
  if (is_best) replace_link(*hooks_.files, folder_, "best", name);
  replace_link(*hooks_.files, folder_, "latest", name);
  sync_folder(*hooks_.files, folder_);
  try {
    remove_expired(state.step);
  } catch (const Error& error) {
    // The new one is safe; a full disk will be noticed by the next save.
    notice(std::string("an old checkpoint was not removed: ") + error.what());
  }
}

// A run that went back to an older checkpoint must not come upon those of the steps that it left.
void Checkpointer::set_later_ones_aside(int64_t step) {
  for (const CheckpointEntry& entry : list_checkpoints(folder_).checkpoints) {
    if (entry.step <= step) continue;
    const std::string aside = set_aside(*hooks_.files, entry.path, "abandoned");
    if (entry.best) remove_tree(*hooks_.files, folder_ + "/best");
    notice("the run went back before step " + std::to_string(entry.step) +
           ", whose checkpoint is set aside as " + aside);
  }
}

void Checkpointer::go_back_to(const std::string& path, int64_t step) {
  std::error_code error;
  const std::string name = checkpoint_name(step);
  if (!fs::equivalent(path, folder_ + "/" + name, error)) return;
  replace_link(*hooks_.files, folder_, "latest", name);
  set_later_ones_aside(step);
  sync_folder(*hooks_.files, folder_);
}

void Checkpointer::remove_expired(int64_t just_written) {
  std::vector<int64_t> steps;
  std::set<int64_t> protected_steps{just_written};
  const CheckpointListing listing = list_checkpoints(folder_);
  for (const CheckpointEntry& entry : listing.checkpoints) {
    steps.push_back(entry.step);
    if (entry.best) protected_steps.insert(entry.step);
  }
  for (int64_t step : expired_steps(steps, keep_, protected_steps)) {
    remove_checkpoint(*hooks_.files, folder_, checkpoint_name(step));
  }
}

// On rank 0: the path of the checkpoint to use, empty when there never was one.
std::string Checkpointer::select_newest(std::vector<std::string>& messages) {
  std::error_code error;
  const fs::path latest = fs::path(folder_) / "latest";
  const bool has_latest = fs::exists(fs::symlink_status(latest, error));
  CheckpointListing listing = list_checkpoints(folder_);
  if (!has_latest && listing.checkpoints.empty() && listing.set_aside.empty()) return {};

  std::vector<CheckpointEntry>& candidates = listing.checkpoints;
  std::reverse(candidates.begin(), candidates.end());
  const auto first = std::find_if(candidates.begin(), candidates.end(),
                                  [](const CheckpointEntry& entry) { return entry.latest; });
  if (first != candidates.end()) {
    std::rotate(candidates.begin(), first, first + 1);
  } else if (has_latest) {
    const std::string target = fs::read_symlink(latest, error).string();
    messages.push_back(latest.string() + (error ? " is not a link to a checkpoint"
                                                : " names " + target + ", which is not there"));
  } else {
    messages.push_back(latest.string() + " is not there");
  }
  for (const CheckpointEntry& entry : candidates) {
    const Verification verification = examine_checkpoint(entry.path);
    if (!verification.damage.empty()) {
      const std::string bad = set_aside(*hooks_.files, entry.path, "bad");
      messages.push_back(entry.path + " is damaged and was set aside as " +
                         fs::path(bad).filename().string() + ": " + join(verification.damage));
      continue;
    }
    if (!verification.refusals.empty()) throw RefusedError(join(verification.refusals));
    return entry.path;
  }
  throw CheckpointError("no checkpoint in " + folder_ + " can be used (" +
                        (messages.empty() ? "all were set aside" : join(messages)) +
                        "); give one by --resume PATH, or another run.name to start anew");
}

std::optional<LoadedCheckpoint> Checkpointer::load_newest() {
  json choice;
  collective_work([&] {
    if (host_.rank() != 0) return;
    std::error_code error;
    if (!tidied_ && fs::exists(folder_, error)) prepare_folder();
    std::vector<std::string> messages;
    const std::string path = select_newest(messages);
    choice = {{"path", path}, {"messages", messages}};
  });
  choice = json::parse(comm::broadcast_text(host_, choice.dump(), 0));
  std::string path = choice["path"];
  if (path.empty()) return std::nullopt;
  return read_on_all(std::move(path), choice["messages"]);
}

LoadedCheckpoint Checkpointer::load_path(const std::string& path) {
  std::string found;
  collective_work([&] {
    if (host_.rank() != 0) return;
    found = resolve_checkpoint(path, Prefer::kLatest);
    const std::vector<std::string> problems = verify_checkpoint(found);
    if (!problems.empty()) {
      throw CheckpointError("the checkpoint " + found + " cannot be used: " + join(problems));
    }
  });
  return read_on_all(comm::broadcast_text(host_, found, 0), {});
}

LoadedCheckpoint Checkpointer::read_on_all(std::string path, std::vector<std::string> messages) {
  LoadedCheckpoint loaded;
  collective_work([&] { loaded.state = read_checkpoint(path, Parts::kAll); });
  loaded.path = std::move(path);
  loaded.messages = std::move(messages);
  return loaded;
}

}  // namespace longship::runtime
