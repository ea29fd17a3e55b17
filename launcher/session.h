#pragma once

#include <c10/core/Device.h>

#include <chrono>
#include <memory>
#include <string>

#include "comm/communicator.h"
#include "comm/mpi_runtime.h"

namespace longship::launcher {

// The rank that the launcher's environment gives this process; 0 without a launcher. For messages
// that must come once although MPI has not started.
int rank_by_environment();

// The ranks of a job and what each of them runs on. One a process.
struct Session {
  std::unique_ptr<comm::MpiRuntime> mpi;          // null when no launcher started the process
  std::unique_ptr<comm::Communicator> host;       // CPU tensors: agreements, small results
  std::unique_ptr<comm::Communicator> votes;      // CPU tensors: the control channel's own
  std::unique_ptr<comm::Communicator> gradients;  // training tensors; made by connect_gradients()
  c10::Device device = c10::Device(c10::kCPU);
  int local_rank = 0;
  int local_size = 1;
  std::string host_name;

  Session() = default;
  Session(Session&&) = default;
  ~Session();  // gradients, votes, host, then MPI
};

// Starts MPI when a launcher started this process (never otherwise), and checks what the launcher
// says against what MPI says: tasks of `srun` without PMI, each of which believes to be rank 0 of
// 1, and programs of another MPI's mpirun are refused with the remedy. Throws comm::CommError
// (kSetup).
std::unique_ptr<Session> start_session(std::chrono::seconds timeout);

// Chooses this rank's device before any other CUDA call: CPU where there is no GPU (or
// LONGSHIP_DEVICE=cpu); the only visible GPU; else GPU number local_rank. Collective. Throws
// CommError (kSetup) on every rank alike: an unknown backend; more ranks than GPUs on a host
// (unless the backend is "mpi"); some ranks without a GPU. Throws c10::Error on a rank whose GPU
// cannot be used.
void bind_device(Session& session, const std::string& backend);

// Makes the gradient communicator, once every rank has its device: backend "auto" takes NCCL for
// GPUs, MPI for CPUs and for a single rank the local one; "nccl" and "mpi" insist. Collective.
// Throws CommError (kSetup).
void connect_gradients(Session& session, const std::string& backend, std::chrono::seconds timeout);

}  // namespace longship::launcher
