#pragma once

#include <mpi.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "comm/mpi_types.h"

namespace longship::comm {

// What MPI tells about this rank and its place among the others.
struct MpiWorld {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;
  int node_count = 1;
  int node = 0;
  std::string host;
  std::string library_version;
};

// One MPI operation under way. The MPI thread alone touches it until it is finished.
struct MpiOperation {
  std::string name;  // for messages: "all_reduce #12 (float32 x 1000, sum)"
  // Whether the operation may start: its data may still be on the way from a GPU. Empty: at once.
  std::function<bool()> ready;
  // Makes the MPI call and returns its code; leaves MPI_REQUEST_NULL when nothing is pending.
  std::function<int(MPI_Request*)> start;

  MPI_Request request = MPI_REQUEST_NULL;
  bool finished = false;  // guarded by the MPI thread's mutex, as is error
  std::string error;
};

// The one thread that makes MPI calls.
//
// Note [One MPI thread]
// MPI progresses only while somebody is inside it: Open MPI has no thread of its own. If training
// made the calls, a bucket's all-reduce would move only when training next entered MPI, that is,
// after backward. So one thread holds MPI for the life of the process. It starts every collective
// as a nonblocking one and polls all that are pending, so that several buckets travel at a time and
// an operation whose data is still on its way from the GPU does not hold up another communicator's.
// Because no call blocks, a limit of time can be kept: the waiting thread gives up, not MPI.
//
// Polling backs off, for ranks may share cores with backward: it spins briefly, then yields, then
// sleeps on the condition variable that announces new operations, at most 100 us at a time. With
// nothing pending it sleeps until there is.
class MpiThread {
 public:
  // Starts the thread and MPI in it. Throws CommError: kSetup, or kPeer when MPI does not come up
  // within the time limit.
  explicit MpiThread(std::chrono::milliseconds timeout);
  // Finalizes MPI when all ranks come to a last barrier within a few seconds; otherwise leaves it,
  // as MPI_Finalize would wait for a rank that is gone.
  ~MpiThread();
  MpiThread(const MpiThread&) = delete;
  MpiThread& operator=(const MpiThread&) = delete;

  const MpiWorld& world() const;
  const HalfSums& half_sums() const;

  // A queue of operations that start in the order of submission.
  int make_queue();
  std::shared_ptr<MpiOperation> submit(int queue, std::string name, std::function<bool()> ready,
                                       std::function<int(MPI_Request*)> start);
  bool finished(const MpiOperation& operation) const;
  // Returns when the operation is finished. Throws CommError (kPeer) when it failed or the time
  // limit passes; after that this thread counts as broken.
  void wait(const MpiOperation& operation);
  // An operation has failed or not ended in time: nothing more can be expected of the others.
  bool broken() const;

  [[noreturn]] void abort(int code);

 private:
  struct State;
  void wait(const MpiOperation& operation, std::chrono::milliseconds limit);

  // Shared with the thread, which may have to be left behind when MPI does not return.
  std::shared_ptr<State> state_;
  std::chrono::milliseconds timeout_;
};

}  // namespace longship::comm
