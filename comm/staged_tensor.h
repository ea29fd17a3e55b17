#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace longship::comm {

// A tensor's elements where MPI can reach them.
//
// Note [Staged CUDA tensors]
// A CPU tensor is used in place. For a CUDA tensor the current stream copies it to pinned memory
// and marks the end of the copy; the MPI thread polls the mark and only then starts, so neither the
// caller nor another collective waits for the GPU. The way back is put on the caller's stream by
// the caller, after the collective has ended on the host. Pinned memory comes from LibTorch's
// caching allocator, which does not hand it out again before the copies are done.
class StagedTensor {
 public:
  // kSend: the contents are wanted by the collective; kReceive: only room for the result.
  enum class Use { kSend, kReceive };
  StagedTensor(at::Tensor tensor, Use use);

  // The memory for MPI: contiguous, on the host.
  void* data() const { return host_.data_ptr(); }
  // For MpiThread::submit: empty when the data is there already.
  const std::function<bool()>& ready() const { return ready_; }
  // Puts the result where the tensor lives, in the order of its device's current stream.
  void deliver() const;

 private:
  at::Tensor tensor_;
  at::Tensor host_;
  std::function<bool()> ready_;
};

}  // namespace longship::comm
