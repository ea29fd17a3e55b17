#pragma once

#include <c10/core/Device.h>

#include <functional>
#include <memory>

namespace longship::runtime {

// Work of one stream as a CUDA graph: put on the stream once while it is recorded, without running,
// and then run by replay() as often as wanted, at the cost of one launch. It reads and writes the
// memory that it was recorded with.
//
// Note [Recording a step]
// A recording forbids calls that wait for the GPU; a model that makes one, to look at a number on
// the host, cannot be recorded, and the exception says so. Only calls of the recording thread count
// (mode thread_local): a prefetch thread may pin memory meanwhile. The stream must not be CUDA's
// default one. Everything must have run once before, so that libraries have made their handles and
// workspaces. A graph must be gone before the communicator whose collectives it holds.
class StepGraph {
 public:
  // Memory that graphs take their temporaries from; graphs of one pool must not run at the same
  // time, and no temporary lives on from one to the next.
  class Pool;
  static std::shared_ptr<Pool> make_pool();

  // Records what `work` puts on the current stream of `device`. Throws what `work` or the recording
  // throws; the stream can be used as before then.
  StepGraph(std::shared_ptr<Pool> pool, c10::Device device, const std::function<void()>& work);
  ~StepGraph();
  StepGraph(const StepGraph&) = delete;
  StepGraph& operator=(const StepGraph&) = delete;

  // Runs the work on the current stream; does not block.
  void replay();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace longship::runtime
