#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

namespace longship::slurm {

// What Slurm says about the job that this process runs in. Absent where Slurm does not say: sites
// differ in which variables they set.
struct JobEnvironment {
  std::string job_id;                     // SLURM_JOB_ID
  std::string job_name;                   // SLURM_JOB_NAME
  std::string node_list;                  // SLURM_JOB_NODELIST, such as "node[1-2]"
  std::optional<int> nodes;               // SLURM_JOB_NUM_NODES
  std::optional<int> tasks;               // SLURM_NTASKS
  std::optional<int> cpus_per_task;       // SLURM_CPUS_PER_TASK: what the batch script asked for
  std::optional<int> step_cpus_per_task;  // SRUN_CPUS_PER_TASK: what srun will give to a task
  int restarts = 0;                       // SLURM_RESTART_COUNT: earlier lives of the job
};

// As std::getenv: null when the variable is not set. Tests hand in a table.
using GetVariable = std::function<const char*(const char* name)>;

// Nothing outside of a Slurm job. Never throws: what is no number counts as absent.
std::optional<JobEnvironment> job_environment(const GetVariable& get);
// The same from this process's environment.
std::optional<JobEnvironment> job_environment();

// "5:30", "1:02:03" and "2-01:02:03" as squeue's %L writes a time, in seconds; nothing for words
// such as "UNLIMITED", "INVALID" or "NOT_SET".
std::optional<std::chrono::seconds> parse_time_left(const std::string& text);

// How long the job may still run, asked with `squeue -h -j ID -o %L` (Slurm 22.05 does not set
// SLURM_JOB_END_TIME); nothing when there is no limit or squeue does not answer. Starts a process:
// not for use after MPI has started.
std::optional<std::chrono::seconds> time_left(const std::string& job_id);

}  // namespace longship::slurm
