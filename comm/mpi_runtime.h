#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "comm/communicator.h"

namespace longship::comm {

// MPI in one thread: that thread calls MPI_Init_thread, every later MPI call and MPI_Finalize, and
// sleeps when there is nothing to do. Made once a process, before any other thread needs MPI.
class MpiRuntime {
 public:
  // Starts MPI. Throws CommError (kSetup) when the library offers less than MPI_THREAD_FUNNELED.
  explicit MpiRuntime(std::chrono::seconds timeout);
  // Finalizes MPI (after a barrier with a limit) unless abort() was called.
  ~MpiRuntime();
  MpiRuntime(const MpiRuntime&) = delete;
  MpiRuntime& operator=(const MpiRuntime&) = delete;

  int rank() const;
  int size() const;
  // Rank and size among the ranks that share this node's memory (MPI_COMM_TYPE_SHARED).
  int local_rank() const;
  int local_size() const;
  // Number of nodes, and this rank's node (0-based, in the order of their lowest ranks).
  int node_count() const;
  int node() const;
  const std::string& host() const;
  // MPI_Get_library_version, first line.
  const std::string& library_version() const;

  // A communicator over all ranks on its own duplicate of the world, so that its collectives never
  // mix with another's. Takes CPU tensors, and CUDA tensors by way of pinned memory. Must be
  // destroyed before this runtime. Collective: all ranks call it in the same order.
  std::unique_ptr<Communicator> make_communicator();

  // MPI_Abort(code) from the MPI thread; _exit(code) after five seconds. Does not return.
  [[noreturn]] void abort(int code);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace longship::comm
