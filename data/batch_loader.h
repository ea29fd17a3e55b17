#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "data/dataset.h"
#include "data/sample_order.h"

namespace longship::data {

// One micro-batch as the training step takes it, on the training device.
struct MicroBatch {
  int64_t step = 0;         // 0-based step of the run
  int64_t micro_batch = 0;  // number within the step
  int64_t samples = 0;      // of the whole step, over all ranks, without padding
  Batch batch;              // or else:
  at::Tensor first_rows;    // (batch,) int64, for DeviceSeries::gather(); undefined with a batch
  // (batch,) float32: 1 for a sample, 0 for padding after the end of the run.
  at::Tensor weight;
  std::vector<int64_t> windows;  // the real ones only, in order
};

class BatchSource {
 public:
  virtual ~BatchSource() = default;
  // Throws DataError, also for what went wrong in a prefetch thread; std::out_of_range at the end.
  virtual MicroBatch next() = 0;
};

// Which micro-batches a rank takes: of every step in [first_step, end_step) those numbered
// [first_micro_batch, end_micro_batch).
struct LoaderPlan {
  int64_t first_step = 0;
  int64_t end_step = 0;
  int64_t first_micro_batch = 0;
  int64_t end_micro_batch = 0;
  int64_t batch_size = 0;  // samples of a step over all ranks
  int64_t micro_batch_size = 0;
  int64_t end_position = 0;  // samples of the whole run; positions from here on are padding
  bool rows_only = false;    // give row numbers in place of batches
};

// Gathers micro-batches of the training split in a prefetch thread, `depth` ahead, into pinned
// memory when the device is a GPU. From there a stream of its own copies them, one ahead of the one
// that next() gives, which may be used in the order of the current stream. Micro-batches come in
// the order of steps, then of numbers. A micro-batch that is all padding has weight 0 everywhere
// and the last real window as its samples.
class BatchLoader : public BatchSource {
 public:
  BatchLoader(std::shared_ptr<const Dataset> dataset, SampleOrder order, LoaderPlan plan,
              c10::Device device, int depth = 4);
  ~BatchLoader() override;
  BatchLoader(const BatchLoader&) = delete;
  BatchLoader& operator=(const BatchLoader&) = delete;

  MicroBatch next() override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace longship::data
