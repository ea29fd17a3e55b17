#pragma once

#include <mpi.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "comm/communicator.h"
#include "comm/mpi_thread.h"

namespace longship::comm {

// Collectives on a duplicate of MPI_COMM_WORLD, run by the MPI thread. CUDA tensors travel by way
// of pinned memory: see Note [Staged CUDA tensors].
class MpiCommunicator final : public Communicator {
 public:
  // Collective. The thread must outlive the communicator. Throws CommError.
  explicit MpiCommunicator(std::shared_ptr<MpiThread> thread);
  // Frees the duplicate. Every Work must have ended before.
  ~MpiCommunicator() override;
  MpiCommunicator(const MpiCommunicator&) = delete;
  MpiCommunicator& operator=(const MpiCommunicator&) = delete;

  int rank() const override { return thread_->world().rank; }
  int size() const override { return thread_->world().size; }
  std::string backend() const override { return "mpi"; }
  bool capturable() const override { return false; }

  std::unique_ptr<Work> all_reduce_async(at::Tensor tensor, ReduceOp op) override;
  void broadcast(at::Tensor tensor, int root) override;
  void all_gather(const at::Tensor& input, at::Tensor output) override;
  std::unique_ptr<Work> reduce_scatter_async(const at::Tensor& input, at::Tensor output,
                                             ReduceOp op) override;
  void barrier() override;

 private:
  // Puts a collective on this communicator's queue, numbers it and names it for messages.
  std::shared_ptr<MpiOperation> submit(const std::string& collective, const at::Tensor& tensor,
                                       const std::string& detail, std::function<bool()> ready,
                                       std::function<int(MPI_Request*)> start);

  std::shared_ptr<MpiThread> thread_;
  int queue_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  uint64_t next_ = 0;
};

}  // namespace longship::comm
