#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "launcher/session.h"

namespace longship::launcher {

// What `longship doctor` finds out about one process and its machine, without changing anything:
//   host, node, local_rank, local_size
//   versions     {longship, libtorch, mpi, hdf5, nccl, cudnn, cuda, driver, driver_cuda}: text
//   each,
//                "" where there is none
//   gpus         [{name, compute_capability, memory_gib, uuid}] in CUDA's order
//   gpu_failure  why the GPUs could not be asked, "" otherwise
//   gpu_files    whether the machine has NVIDIA device files
//   devices      what visible_devices() says, as text
//   cpus         {list, count, threads}
//   shared_memory {total_mib, free_mib}: /dev/shm; null where it is not mounted
//   interfaces   [{name, address, loopback}]: network interfaces that are up, IPv4 first
//   filters      [{id, name, usable}]: HDF5's
//   environment  {NAME: value}: variables that steer CUDA, NCCL, MPI, OpenMP, HDF5 and Longship
//   slurm        {job_id, nodes, tasks, cpus_per_task, restarts, ...}; null outside of a job
// mpi_library: the name of the MPI library that runs, or that the program was built with.
nlohmann::json doctor_facts(const Session& session, const std::string& mpi_library);

// "Open MPI 4.1.4 (built with; not started)": without a call of MPI.
std::string built_mpi_library();

}  // namespace longship::launcher
