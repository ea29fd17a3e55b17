#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "runtime/config.h"
#include "runtime/run_lock.h"

namespace longship::runtime {

// The folder of a run's name: "runs/NAME"; a leading "~/" of `directory` is the home folder.
std::string named_run_root(const std::string& directory, const std::string& name);

// As named_run_root(). For an empty name (`auto`) a new one is made and its folder created:
// STEM-20260301-123456 by the time `now` in UTC, with -2, -3, ... when taken, also by a job that
// starts at the same moment. Rank 0 calls this and tells the others. Throws ConfigError.
std::string choose_run_root(const std::string& directory, const std::string& name,
                            const std::string& stem, std::chrono::system_clock::time_point now);

// The log of one rank: ROOT/logs/rank-00000.log.
std::string rank_log_path(const std::string& root, int rank);

// What a run's folder tells to whoever looks, without the lock.
class RunRecords {
 public:
  explicit RunRecords(std::string root) : root_(std::move(root)) {}

  const std::string& root() const { return root_; }
  std::string config_path() const { return path("config.yaml"); }
  std::string run_path() const { return path("run.json"); }
  std::string metrics_path() const { return path("metrics.jsonl"); }
  std::string checkpoints_path() const { return path("checkpoints"); }

  // Whether a run was started here before.
  bool has_config() const;
  // What `micro_batch_size: auto` became when the run started, as run.json tells; 0 when it does
  // not.
  int64_t chosen_micro_batch_size() const;
  // The path that the run was started from by --resume; "" for none.
  std::string resumed_from() const;

 protected:
  std::string path(const char* name) const;

 private:
  std::string root_;
};

// The folder and those above it that do not exist, outer ones first.
std::vector<std::string> missing_folders(const std::string& folder);

// Throws ConfigError where a run cannot be in `root`: the folder exists and holds other things.
void refuse_foreign_folder(const std::string& root);

// A run's folder, held by rank 0 of one live job. Other ranks write below checkpoints/ and logs/
// and call probe_writable() (runtime/atomic_file.h) themselves.
class RunDirectory : public RunRecords {
 public:
  // Creates `root` and what is missing above it, or opens it; makes sure that it can be written;
  // takes its lock; creates logs/ and checkpoints/. Throws ConfigError naming path, host and
  // reason: no folder, not writable, another live job, or a folder that holds other things than a
  // run. `made`: folders that were made for it before, outer ones first.
  explicit RunDirectory(const std::string& root, std::vector<std::string> made = {});
  // A start that was refused before a run began leaves nothing behind: without config.yaml, the
  // ranks' logs and the folders that were created here are removed again.
  ~RunDirectory();
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;

  // config.yaml: the settings with data paths relative to the run directory, so that it can be used
  // as a run file where it lies. Atomic; throws ConfigError.
  void write_config(const Config& config) const;
  // run.json, as the caller made it. Atomic; throws ConfigError.
  void write_run(const nlohmann::json& facts) const;

  // As RunLock::refresh(): false when another job has taken the folder, so that this one must stop.
  bool refresh() const { return lock_->refresh(); }
  // A line for the log about a lock that was taken over; "" in the common case.
  const std::string& note() const { return lock_->note(); }

 private:
  void remove_created() const;

  std::vector<std::string> created_;  // outer ones first
  std::unique_ptr<RunLock> lock_;
};

}  // namespace longship::runtime
