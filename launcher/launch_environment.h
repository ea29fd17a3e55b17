#pragma once

#include <functional>
#include <optional>
#include <string>

namespace longship::launcher {

// Looks a variable up, as std::getenv does: null when it is not set. Tests hand in a table.
using GetVariable = std::function<const char*(const char* name)>;

// What the environment says about how this process was started. No MPI call is made.
struct LaunchEnvironment {
  std::string variable;     // the variable that told, such as "OMPI_COMM_WORLD_SIZE"; empty: none
  int size = 0;             // processes started together; 0 where the launcher does not say
  int rank = 0;             // this process among them
  bool slurm_step = false;  // inside a step of several tasks that `srun` started
  bool has_pmi = false;     // an MPI launcher's or PMI's variables are there
};

LaunchEnvironment read_launch_environment(const GetVariable& get);
// The same from this process's environment.
LaunchEnvironment launch_environment();

// Why the launcher and MPI do not fit together, with the remedy; nothing when they do, or when
// LONGSHIP_IGNORE_LAUNCHER=1 turns the check off. `world_size` is MPI's, 1 where MPI would start
// each process alone; `library` is the MPI library's name for the message.
std::optional<std::string> launcher_mismatch(const LaunchEnvironment& environment, int world_size,
                                             const std::string& library, const GetVariable& get);

}  // namespace longship::launcher
