#pragma once

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

}  // namespace longship::slurm
