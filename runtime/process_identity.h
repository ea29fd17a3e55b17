#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace longship::runtime {

// What tells a process from all others, over hosts, reboots and containers.
struct ProcessIdentity {
  std::string host;
  std::string boot;           // the kernel's boot id; "" where there is none
  std::string pid_namespace;  // "" where it cannot be read
  int64_t pid = 0;
  int64_t start_ticks = 0;  // since boot; tells a pid that was given to another process
  std::string slurm_job;    // SLURM_JOB_ID, "" outside Slurm
  int64_t slurm_restarts = 0;

  bool operator==(const ProcessIdentity&) const = default;
};

ProcessIdentity this_process();

std::string host_name();

// Whether a process that shares this one's kernel and pid namespace still runs. A zombie does not.
bool is_running(const ProcessIdentity& process);

// Whether is_running() can answer: the process's pids mean the same to this process.
bool shares_pids(const ProcessIdentity& process, const ProcessIdentity& self);

// "2026-03-01T12:34:56Z".
std::string utc_now();

}  // namespace longship::runtime
