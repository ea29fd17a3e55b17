#include "runtime/step_graph.h"

#include <ATen/cuda/CUDAGraph.h>
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>

#include <exception>
#include <utility>

namespace longship::runtime {

class StepGraph::Pool {
 public:
  at::cuda::MempoolId_t id = at::cuda::graph_pool_handle();
};

struct StepGraph::Impl {
  std::shared_ptr<Pool> pool;
  at::cuda::CUDAGraph graph;
};

namespace {

// After a recording that failed. LibTorch ends its own part of one (allocations of the pool, the
// state of random generators) only when CUDA's part ended well, so that is made up for: the
// allocator is told, and an empty recording takes the generators back.
void recover(at::cuda::CUDAGraph& failed, c10::Device device, at::cuda::MempoolId_t pool) {
  try {
    failed.capture_end();
  } catch (const std::exception&) {  // says once more that the recording is invalid
  }
  static_cast<void>(cudaGetLastError());
  try {
    c10::cuda::CUDACachingAllocator::endAllocateToPool(device.index(), pool);
    c10::cuda::CUDACachingAllocator::releasePool(device.index(), pool);
  } catch (const std::exception&) {  // it had been told
  }
  const at::Tensor something = at::zeros({1}, at::TensorOptions().device(device));
  at::cuda::CUDAGraph empty;
  empty.capture_begin(at::cuda::graph_pool_handle(), cudaStreamCaptureModeThreadLocal);
  something.zero_();
  empty.capture_end();
}

}  // namespace

std::shared_ptr<StepGraph::Pool> StepGraph::make_pool() {
  return std::make_shared<Pool>();
}

StepGraph::StepGraph(std::shared_ptr<Pool> pool, c10::Device device,
                     const std::function<void()>& work)
    : impl_(std::make_unique<Impl>()) {
  impl_->pool = std::move(pool);
  impl_->graph.capture_begin(impl_->pool->id, cudaStreamCaptureModeThreadLocal);
  try {
    work();
    impl_->graph.capture_end();
  } catch (...) {
    const std::exception_ptr error = std::current_exception();
    recover(impl_->graph, device, impl_->pool->id);
    std::rethrow_exception(error);
  }
}

StepGraph::~StepGraph() = default;

void StepGraph::replay() {
  impl_->graph.replay();
}

}  // namespace longship::runtime
