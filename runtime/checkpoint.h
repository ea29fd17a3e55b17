#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "runtime/checkpoint_folder.h"
#include "runtime/checkpoint_reader.h"
#include "runtime/checkpoint_state.h"
#include "runtime/manifest.h"

namespace longship::runtime {

// A checkpoint that was read; tensors on the CPU.
struct LoadedCheckpoint {
  std::string path;
  TrainingState state;
  // What was skipped or set aside on the way to it, and why; one sentence each.
  std::vector<std::string> messages;
};

// Writes and reads the checkpoints of one run. All methods are collective on `host`; an error is
// agreed on, so that either all ranks go on or all throw the same AgreedError (exit code 4), which
// names rank and host. Waits of any length are fine: ranks that are ready meet the others in short
// collectives.
//
// Note [When a checkpoint counts]
// Files are written under .partial-NAME, each hashed, flushed and read back by the rank that wrote
// it. Only when all ranks agree that theirs are there is the manifest written and flushed, the
// folder renamed to step-NNNNNNNNN and its parent flushed. Then the links move, then older ones are
// removed. A process that ends at any moment leaves the folder as it was, plus names that begin
// with a dot.
class Checkpointer {
 public:
  struct Hooks {
    // What to change the file system with; tests make it fail.
    std::shared_ptr<FileOps> files = std::make_shared<FileOps>();
    // Called on rank 0 with things worth a line in the log.
    std::function<void(const std::string&)> notice;
  };

  // folder: runs/NAME/checkpoints; its parent exists. keep: how many of the newest remain, beside
  // the best and the one just written; 0 removes none. `host` must outlive this. Not collective.
  Checkpointer(std::string folder, comm::Communicator& host, int64_t keep);
  Checkpointer(std::string folder, comm::Communicator& host, int64_t keep, Hooks hooks);

  // Checks that every rank can write to the folder and that it is one folder for all of them; makes
  // it if need be. For the start of a run, long before the first save.
  void probe();

  // Writes a checkpoint of state.step and points `latest` to it, and `best` if is_best. One of the
  // same step is replaced. Returns its path. On an error nothing is left of it and older
  // checkpoints are untouched. Whoever calls makes sure of all_finite(state).
  std::string save(const TrainingState& state, bool is_best);

  // The checkpoint to go on from: `latest`, or where that does not verify the highest step that
  // does. Those that are damaged are set aside as NAME.bad. nullopt when there never was one; an
  // error when there were some and none is left, so that a training never starts anew unnoticed.
  std::optional<LoadedCheckpoint> load_newest();

  // Where one of this folder is gone on from that is not the newest: from now on it is, and those
  // of later steps are set aside. Nothing for one of another folder. On rank 0; not collective.
  void go_back_to(const std::string& path, int64_t step);

  // The checkpoint that a path means (resolve_checkpoint, kLatest); an error if it does not verify.
  LoadedCheckpoint load_path(const std::string& path);

 private:
  void collective_work(const std::function<void()>& work);
  void prepare_folder();
  std::string write_all(const TrainingState& state, bool is_best, const std::string& temporary);
  void finish(const TrainingState& state, bool is_best, const std::string& temporary,
              const std::vector<std::string>& parts);
  void set_later_ones_aside(int64_t step);
  void remove_expired(int64_t just_written);
  std::string select_newest(std::vector<std::string>& messages);
  LoadedCheckpoint read_on_all(std::string path, std::vector<std::string> messages);
  void notice(const std::string& text) const;

  std::string folder_;
  comm::Communicator& host_;
  std::string host_name_;
  int64_t keep_;
  Hooks hooks_;
  bool tidied_ = false;  // rank 0
};

}  // namespace longship::runtime
