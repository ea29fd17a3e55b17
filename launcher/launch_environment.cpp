#include "launcher/launch_environment.h"

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace longship::launcher {
namespace {

std::optional<int64_t> number(const GetVariable& get, const char* name) {
  const char* text = get(name);
  if (text == nullptr) return std::nullopt;
  const std::string_view view(text);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(view.data(), view.data() + view.size(), value);
  if (error != std::errc{} || end != view.data() + view.size()) return std::nullopt;
  return value;
}

// The steps of a batch script's shell, of `salloc`'s shell and of containers have numbers from here
// on (0xfffffffb and its neighbours): their shell is no task of a parallel program.
constexpr int64_t kFirstSpecialStep = 0xfffffff0;

int slurm_step_tasks(const GetVariable& get) {
  const auto step = number(get, "SLURM_STEP_ID");
  if (!step || *step < 0 || *step >= kFirstSpecialStep) return 0;
  return static_cast<int>(number(get, "SLURM_STEP_NUM_TASKS").value_or(0));
}

bool ignores_launcher(const GetVariable& get) {
  const char* value = get("LONGSHIP_IGNORE_LAUNCHER");
  return value != nullptr && std::string_view(value) == "1";
}

struct Source {
  const char* size;
  const char* rank;
};
// In the order of trust: mpirun of Open MPI also runs inside steps that `srun` started for it,
// whose own counts are about mpirun's daemons.
constexpr Source kSources[] = {
    {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
    {"PMI_SIZE", "PMI_RANK"},
    {"MPI_LOCALNRANKS", "MPI_LOCALRANKID"},
};

}  // namespace

LaunchEnvironment read_launch_environment(const GetVariable& get) {
  LaunchEnvironment result;
  for (const Source& source : kSources) {
    const auto size = number(get, source.size);
    if (!size) continue;
    result.variable = source.size;
    result.size = static_cast<int>(*size);
    result.rank = static_cast<int>(number(get, source.rank).value_or(0));
    result.has_pmi = true;
    return result;
  }
  for (const char* name : {"PMIX_RANK", "PMI_RANK"}) {
    const auto rank = number(get, name);
    if (!rank) continue;
    result.variable = name;
    result.rank = static_cast<int>(*rank);
    result.has_pmi = true;
    break;
  }
  const bool trusts_slurm = result.has_pmi || !ignores_launcher(get);
  if (const int tasks = slurm_step_tasks(get); tasks > 1 && trusts_slurm) {
    result.variable = "SLURM_STEP_NUM_TASKS";
    result.size = tasks;
    result.slurm_step = true;
    if (!result.has_pmi) result.rank = static_cast<int>(number(get, "SLURM_PROCID").value_or(0));
  }
  return result;
}

LaunchEnvironment launch_environment() {
  return read_launch_environment([](const char* name) { return std::getenv(name); });
}

std::optional<std::string> launcher_mismatch(const LaunchEnvironment& environment, int world_size,
                                             const std::string& library, const GetVariable& get) {
  if (environment.size <= world_size || ignores_launcher(get)) return std::nullopt;
  const std::string counts = "The launcher says " + std::to_string(environment.size) + " tasks (" +
                             environment.variable + "), MPI says " + std::to_string(world_size) +
                             " (" + library + "): ";
  const std::string override_hint = " LONGSHIP_IGNORE_LAUNCHER=1 turns this check off.";
  if (environment.slurm_step) {
    return counts +
           "srun started the tasks without the PMI that this MPI needs, so each would train alone "
           "as rank 0 of 1. Use mpirun inside the allocation, or srun --mpi=pmix where "
           "'srun --mpi=list' names pmix." +
           override_hint;
  }
  return counts +
         "the processes were started by the launcher of another MPI library, so each would train "
         "alone as rank 0 of 1. Use the mpirun of the library named here ('longship launch' finds "
         "it), or inside Slurm srun --mpi=pmix." +
         override_hint;
}

}  // namespace longship::launcher
