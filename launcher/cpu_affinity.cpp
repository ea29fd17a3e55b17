#include "launcher/cpu_affinity.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <memory>
#include <system_error>

namespace longship::launcher {

std::vector<int> allowed_cpus() {
  // Machines may have more CPUs than a fixed cpu_set_t holds; the kernel says EINVAL until the set
  // is large enough.
  for (int capacity = 1024; capacity <= (1 << 20); capacity *= 2) {
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(
        CPU_ALLOC(static_cast<size_t>(capacity)), [](cpu_set_t* s) { CPU_FREE(s); });
    if (set == nullptr) throw std::bad_alloc();
    const size_t bytes = CPU_ALLOC_SIZE(static_cast<size_t>(capacity));
    CPU_ZERO_S(bytes, set.get());
    if (sched_getaffinity(0, bytes, set.get()) == 0) {
      std::vector<int> cpus;
      for (int cpu = 0; cpu < capacity; ++cpu) {
        if (CPU_ISSET_S(static_cast<size_t>(cpu), bytes, set.get())) cpus.push_back(cpu);
      }
      return cpus;
    }
    if (errno != EINVAL) break;
  }
  throw std::system_error(errno, std::generic_category(), "sched_getaffinity");
}

std::string cpu_list(const std::vector<int>& cpus) {
  std::string text;
  for (size_t first = 0; first < cpus.size();) {
    size_t last = first;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += std::to_string(cpus[first]);
    if (last > first) text += '-' + std::to_string(cpus[last]);
    first = last + 1;
  }
  return text;
}

int threads_of_rank(const std::vector<RankCpus>& ranks, int rank, int cpu_count) {
  const RankCpus& own = ranks.at(static_cast<size_t>(rank));
  const auto others = std::count_if(ranks.begin(), ranks.end(), [&](const RankCpus& other) {
    return &other != &own && other.node == own.node && other.cpus == own.cpus;
  });
  return std::max(1, cpu_count / (1 + static_cast<int>(others)));
}

std::vector<std::string> cpu_warnings(int cpu_count, int threads, int slurm_cpus_per_task) {
  std::vector<std::string> warnings;
  if (threads > cpu_count) {
    warnings.push_back("The rank uses " + std::to_string(threads) + " threads but may run on " +
                       std::to_string(cpu_count) +
                       " CPUs only: start with mpirun --bind-to none, or lower OMP_NUM_THREADS.");
  }
  if (slurm_cpus_per_task > cpu_count) {
    warnings.push_back("The job has " + std::to_string(slurm_cpus_per_task) +
                       " CPUs per task (SLURM_CPUS_PER_TASK) but the rank may run on " +
                       std::to_string(cpu_count) +
                       " only: export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK in the batch script "
                       "for srun, or start with mpirun --bind-to none.");
  }
  return warnings;
}

}  // namespace longship::launcher
