#include "data/batch_loader.h"

#include <ATen/Functions.h>
#include <ATen/cuda/CUDAEvent.h>
#include <c10/core/DeviceGuard.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "data/error.h"

namespace longship::data {
namespace {

void check_plan(const LoaderPlan& plan, int64_t windows, int depth) {
  const bool divided = plan.micro_batch_size >= 1 && plan.batch_size >= plan.micro_batch_size &&
                       plan.batch_size % plan.micro_batch_size == 0;
  if (!divided) {
    throw DataError("a batch of " + std::to_string(plan.batch_size) +
                    " samples does not divide into micro-batches of " +
                    std::to_string(plan.micro_batch_size));
  }
  const int64_t micro_batches = plan.batch_size / plan.micro_batch_size;
  if (plan.first_micro_batch < 0 || plan.end_micro_batch > micro_batches ||
      plan.first_micro_batch > plan.end_micro_batch || plan.first_step < 0) {
    throw std::invalid_argument("micro-batches [" + std::to_string(plan.first_micro_batch) + ", " +
                                std::to_string(plan.end_micro_batch) + ") of " +
                                std::to_string(micro_batches) + " cannot be loaded");
  }
  if (windows < 1 || plan.end_position < 1)
    throw DataError("there are no training windows to load");
  if (depth < 1) throw std::invalid_argument("a loader prefetches at least one micro-batch");
}

}  // namespace

struct BatchLoader::Impl {
  std::shared_ptr<const Dataset> dataset;
  SampleOrder order;
  LoaderPlan plan;
  c10::Device device;
  size_t depth;

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<MicroBatch> ready;  // on the CPU, pinned for a GPU
  // Of the thread that calls next(): the micro-batch that the copy stream is busy with.
  std::optional<c10::cuda::CUDAStream> copy_stream;
  std::optional<MicroBatch> staged;
  at::cuda::CUDAEvent staged_there;
  std::exception_ptr failure;
  bool finished = false;
  bool stopping = false;
  std::thread thread;

  Impl(std::shared_ptr<const Dataset> data, SampleOrder sample_order, LoaderPlan loader_plan,
       c10::Device target, int prefetch)
      : dataset(std::move(data)),
        order(sample_order),
        plan(loader_plan),
        device(target),
        depth(static_cast<size_t>(prefetch)) {
    if (device.is_cuda()) {
      copy_stream = c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device.index());
    }
    thread = std::thread([this] { prefetch_all(); });
  }

  ~Impl() {
    {
      const std::lock_guard<std::mutex> lock(mutex);
      stopping = true;
    }
    changed.notify_all();
    thread.join();
  }

  MicroBatch load(int64_t step, int64_t number) const {
    MicroBatch micro_batch;
    micro_batch.step = step;
    micro_batch.micro_batch = number;
    const int64_t first = step * plan.batch_size + number * plan.micro_batch_size;
    const int64_t real = std::clamp<int64_t>(plan.end_position - first, 0, plan.micro_batch_size);
    for (int64_t i = 0; i < real; ++i) micro_batch.windows.push_back(order.at(first + i));

    std::vector<int64_t> samples = micro_batch.windows;
    const int64_t filler = real > 0 ? samples.back() : order.at(plan.end_position - 1);
    samples.resize(static_cast<size_t>(plan.micro_batch_size), filler);
    micro_batch.samples =
        std::clamp<int64_t>(plan.end_position - step * plan.batch_size, 0, plan.batch_size);
    // For a GPU in pinned memory from the start: gathering there and pinning then copies twice.
    const auto host = at::TensorOptions().pinned_memory(device.is_cuda());
    if (plan.rows_only) {
      micro_batch.first_rows = at::empty({plan.micro_batch_size}, host.dtype(at::kLong));
      auto* rows = micro_batch.first_rows.mutable_data_ptr<int64_t>();
      for (const int64_t sample : samples) *rows++ = dataset->first_row(Split::kTrain, sample);
    } else {
      micro_batch.batch = dataset->gather(Split::kTrain, samples, /*with_observed=*/false,
                                          /*pinned=*/device.is_cuda());
    }
    micro_batch.weight = at::empty({plan.micro_batch_size}, host.dtype(at::kFloat));
    auto* weight = micro_batch.weight.mutable_data_ptr<float>();
    std::fill_n(std::fill_n(weight, real, 1.0F), plan.micro_batch_size - real, 0.0F);
    return micro_batch;
  }

  static std::vector<at::Tensor*> tensors(MicroBatch& micro_batch) {
    std::vector<at::Tensor*> all;
    for (at::Tensor* tensor : {&micro_batch.batch.past, &micro_batch.batch.target,
                               &micro_batch.first_rows, &micro_batch.weight}) {
      if (tensor->defined()) all.push_back(tensor);
    }
    return all;
  }

  // The next one that the prefetch thread has made; none where `wait` is false and it is not there
  // yet, or at the end.
  std::optional<MicroBatch> take(bool wait) {
    std::optional<MicroBatch> taken;
    {
      std::unique_lock<std::mutex> lock(mutex);
      if (wait) changed.wait(lock, [this] { return !ready.empty() || finished; });
      if (ready.empty()) {
        if (wait && failure) std::rethrow_exception(failure);
        return taken;
      }
      taken = std::move(ready.front());
      ready.pop_front();
    }
    changed.notify_all();
    return taken;
  }

  void stage(std::optional<MicroBatch> micro_batch) {
    if (micro_batch) {
      const c10::cuda::CUDAStreamGuard guard(*copy_stream);
      for (at::Tensor* tensor : tensors(*micro_batch)) {
        *tensor = tensor->to(device, /*non_blocking=*/true);
      }
      staged_there.record(*copy_stream);
    }
    staged = std::move(micro_batch);
  }

  // As take(true), on the GPU.
  std::optional<MicroBatch> take_from_device() {
    if (!staged) stage(take(/*wait=*/true));
    std::optional<MicroBatch> taken = std::move(staged);
    staged.reset();
    if (taken) {
      const c10::cuda::CUDAStream stream = c10::cuda::getCurrentCUDAStream(device.index());
      staged_there.block(stream);
      // The allocator must not hand the memory to the copy stream's next batch before.
      for (const at::Tensor* tensor : tensors(*taken)) tensor->record_stream(stream);
    }
    stage(take(/*wait=*/false));
    return taken;
  }

  void prefetch_all() {
    try {
      // Pinning memory in a new thread would otherwise open a context on GPU 0.
      const c10::DeviceGuard guard(device);
      for (int64_t step = plan.first_step; step < plan.end_step; ++step) {
        for (int64_t n = plan.first_micro_batch; n < plan.end_micro_batch; ++n) {
          {
            std::unique_lock<std::mutex> lock(mutex);
            changed.wait(lock, [this] { return stopping || ready.size() < depth; });
            if (stopping) return;
          }
          MicroBatch micro_batch = load(step, n);
          const std::lock_guard<std::mutex> lock(mutex);
          ready.push_back(std::move(micro_batch));
          changed.notify_all();
        }
      }
    } catch (...) {
      const std::lock_guard<std::mutex> lock(mutex);
      failure = std::current_exception();
    }
    const std::lock_guard<std::mutex> lock(mutex);
    finished = true;
    changed.notify_all();
  }
};

BatchLoader::BatchLoader(std::shared_ptr<const Dataset> dataset, SampleOrder order, LoaderPlan plan,
                         c10::Device device, int depth) {
  check_plan(plan, dataset->windows(Split::kTrain), depth);
  impl_ = std::make_unique<Impl>(std::move(dataset), order, plan, device, depth);
}

BatchLoader::~BatchLoader() = default;

MicroBatch BatchLoader::next() {
  std::optional<MicroBatch> micro_batch =
      impl_->device.is_cuda() ? impl_->take_from_device() : impl_->take(/*wait=*/true);
  if (!micro_batch) {
    throw std::out_of_range("the loader has given its last micro-batch, step " +
                            std::to_string(impl_->plan.end_step - 1));
  }
  return *std::move(micro_batch);
}

}  // namespace longship::data
