#include "comm/staged_tensor.h"

#include <ATen/ops/empty.h>

#include <memory>
#include <utility>

#include "comm/stream_mark.h"

namespace longship::comm {

StagedTensor::StagedTensor(at::Tensor tensor, Use use) : tensor_(std::move(tensor)) {
  if (tensor_.is_cpu()) {
    host_ = tensor_;
    return;
  }
  const auto options = at::TensorOptions().dtype(tensor_.dtype()).pinned_memory(true);
  host_ = at::empty(tensor_.sizes(), options);
  if (use == Use::kReceive) return;
  host_.copy_(tensor_, /*non_blocking=*/true);
  auto copied = std::make_shared<StreamMark>();
  copied->record(tensor_.device());
  ready_ = [copied] { return copied->reached(); };
}

void StagedTensor::deliver() const {
  if (!tensor_.is_cpu()) tensor_.copy_(host_, /*non_blocking=*/true);
}

}  // namespace longship::comm
