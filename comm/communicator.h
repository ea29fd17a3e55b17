#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>

namespace longship::comm {

enum class ReduceOp { kSum, kMax, kMin };

// A collective under way. Destroying an unfinished Work waits for it.
class Work {
 public:
  virtual ~Work() = default;

  // True when wait() would not block the host. Never blocks.
  virtual bool done() = 0;

  // Returns when the result may be used: CPU tensors hold it, CUDA tensors hold it in the order of
  // the current stream. Throws CommError (kPeer) when the communicator's time limit passes; the
  // message names the collective, its number, the rank and the host. Where the host does not wait
  // (NCCL), whoever waits for the stream must keep the limit.
  virtual void wait() = 0;
};

// Collectives among a fixed group of ranks. Every rank calls the same operations in the same order
// with tensors of equal shape and dtype; tensors are contiguous. All operations are in place where
// only one tensor is given. With CPU tensors a call returns when the result is there; with CUDA
// tensors the result is ordered on the current stream.
//
// Dtypes: float32, float64, float16, bfloat16, int32, int64, uint8 (kMax and kMin need no half
// types). Not thread-safe: one thread calls, except where an implementation says more.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  // "nccl", "mpi" or "local".
  virtual std::string backend() const = 0;
  // Whether the operations on CUDA tensors may be captured in a CUDA graph.
  virtual bool capturable() const = 0;

  // Starts an all-reduce and returns. The tensor belongs to the operation until wait() returns.
  // With CUDA tensors the operation starts in the order of the current stream.
  virtual std::unique_ptr<Work> all_reduce_async(at::Tensor tensor, ReduceOp op) = 0;

  // Starts a reduce-scatter and returns: input has size() * output.numel() elements; output gets
  // this rank's part of the reduction. Both belong to the operation until wait() returns.
  virtual std::unique_ptr<Work> reduce_scatter_async(const at::Tensor& input, at::Tensor output,
                                                     ReduceOp op) = 0;

  virtual void broadcast(at::Tensor tensor, int root) = 0;
  // output has size() * input.numel() elements: the inputs in the order of ranks.
  virtual void all_gather(const at::Tensor& input, at::Tensor output) = 0;
  virtual void barrier() = 0;

  void all_reduce(at::Tensor tensor, ReduceOp op) {
    all_reduce_async(std::move(tensor), op)->wait();
  }
  void reduce_scatter(const at::Tensor& input, at::Tensor output, ReduceOp op) {
    reduce_scatter_async(input, std::move(output), op)->wait();
  }
};

}  // namespace longship::comm
