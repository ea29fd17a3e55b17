#pragma once

#include <string>
#include <vector>

namespace longship::launcher {

// The CPUs that this process may use, in increasing order (sched_getaffinity).
std::vector<int> allowed_cpus();

// "0-3,8" for {0, 1, 2, 3, 8}; "" for none.
std::string cpu_list(const std::vector<int>& cpus);

// Which CPUs a rank may use, on which node.
struct RankCpus {
  int node = 0;
  std::string cpus;  // as cpu_list writes it
};

// Threads for the operations of one rank: its CPUs, divided among the ranks of its node that have
// the same set; at least 1.
int threads_of_rank(const std::vector<RankCpus>& ranks, int rank, int cpu_count);

// What is wrong with this process's CPUs, one sentence each with the remedy; empty: nothing.
// threads: what the rank will use; slurm_cpus_per_task: what the job asked for, 0: not known.
std::vector<std::string> cpu_warnings(int cpu_count, int threads, int slurm_cpus_per_task);

}  // namespace longship::launcher
