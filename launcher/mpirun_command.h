#pragma once

#include <string>
#include <vector>

namespace longship::launcher {

// What `longship launch` was asked for.
struct LaunchOptions {
  int ranks = 0;         // 0: not given
  std::string hosts;     // "a:8,b:8"; "" for this machine or the Slurm allocation
  int max_restarts = 0;  // how often an ended training is started again
  std::string mpirun = "mpirun";
  std::vector<std::string> mpirun_arguments;  // added to the command, before the program
  bool dry_run = false;
  std::vector<std::string> program_arguments;  // after `--`: train CONFIG ...
};

// What of the machine decides about the flags.
struct Machine {
  bool root = false;
  int cores = 1;  // cores (not hardware threads) that this process may use: mpirun's slots
  int gpus = 0;   // visible GPUs; asked for only when neither ranks nor hosts are given
  bool allocation = false;  // inside a Slurm allocation, whose slots mpirun takes by itself
  std::vector<std::string> exported;  // variables that the ranks on other hosts need too
};

// The machine this process runs on. count_gpus: whether to ask CUDA.
Machine this_machine(bool count_gpus);

// The mpirun command for Open MPI, program included. mpirun: its path; program: the path of
// longship.
std::vector<std::string> mpirun_command(const LaunchOptions& options, const Machine& machine,
                                        const std::string& mpirun, const std::string& program);

// The words after the program's name for a restart: what `--resume` says was for the first start, a
// restart goes on with the newest checkpoint.
std::vector<std::string> restart_command(std::vector<std::string> command);

// The path of Open MPI's mpirun: `name`, or found on PATH. Throws runtime::Error (kSetup) when
// there is none, or when it belongs to another MPI (which is named).
std::string find_mpirun(const std::string& name);

// `environment` ("NAME=value") without what an enclosing mpirun or PMI left in it, which would make
// the new mpirun believe that it belongs to that job. Settings of the user (OMPI_MCA_...,
// OMPI_ALLOW_
// ...) stay, unless this process is itself a rank, where they are the enclosing mpirun's.
std::vector<std::string> scrubbed_environment(const std::vector<std::string>& environment);

// A word as a POSIX shell reads it back: quoted where needed.
std::string shell_quoted(const std::string& word);
std::string shell_quoted(const std::vector<std::string>& words);
// The words of a line, with '...', "..." and backslash as in a shell; nothing is expanded.
// Throws runtime::UsageError for a quote that is not closed.
std::vector<std::string> split_words(const std::string& line);

}  // namespace longship::launcher
