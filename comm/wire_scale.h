#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "comm/wire_code.h"

namespace longship::comm {

struct WireCast;

// The power of two by which each bucket is multiplied before it is cast to a half type, and the
// casts that use it.
//
// Note [Wire scale]
// A half type on the wire must hold both the largest sum over ranks and a small mean. FP16 ends at
// 65504 and loses bits below 2^-14, so the gradients are moved into its range by 2^k, a factor of
// their own: the loss scale follows other needs (activations' gradients in backward), is absent in
// BF16 and FP32 training, and is taken out first.
//
// k must be the same on all ranks before anyone has sent anything, so it comes from what the last
// steps have shown: the largest exponent of any local gradient on any rank. Every rank puts its
// own, as a small whole number, into its slot behind the gradients on the wire, where the other
// ranks have zero; the sum that all ranks get holds all exponents exactly and costs no further
// collective. With size * amax * 2^6 below 2^15 a step may grow 64-fold over the last 16 before it
// overflows; that overflow is seen by all ranks as a non-finite gradient, the step is skipped like
// any other, and its true maxima, recorded, make the next factor smaller. Only a step whose maxima
// are not finite tells nothing and is not recorded, and neither is a bucket of zeros.
//
// Before the first step there is no history; the exponents are then agreed in a collective of their
// own before anything is sent. Whether there is history is known to the host, on all ranks alike,
// so nothing here waits for the device, and all of it can be captured in a CUDA graph.
class WireScale {
 public:
  static constexpr int64_t kHistory = WireCode::kHistory;

  WireScale(int64_t buckets, int rank, int ranks, at::Device device);

  // Whether there is a history to take factors from. False: call use_codes() with agreed codes
  // before the first pack() of a step.
  bool known() const { return known_; }

  // This rank's codes of all buckets (gradients float32), as float32 (buckets,).
  static at::Tensor codes(const std::vector<at::Tensor>& buckets, const at::Tensor& loss_scale);
  // Takes this step's factors from the maximum over ranks of the codes. Where one of them is not
  // finite, the step tells nothing of that bucket, and the next step agrees anew.
  void use_codes(const at::Tensor& codes);

  // gradients: float32 (elements,); wire: half type (elements + ranks,), contiguous, of the same
  // device; loss_scale: float32 scalar, or undefined for 1. On CUDA in the order of the current
  // stream.
  void pack(int64_t bucket, const at::Tensor& gradients, const at::Tensor& wire,
            const at::Tensor& loss_scale);
  // After the sum over ranks. Adds the bucket's codes to its history.
  void unpack(int64_t bucket, const at::Tensor& wire, const at::Tensor& gradients,
              const at::Tensor& loss_scale);
  // After the last unpack() of a step.
  void step_done() { known_ = known_ || told_; }

  // This step's factors 2^k: float32 (buckets,).
  const at::Tensor& factors() const { return factors_; }
  // float32 (buckets, kHistory), exponents, the newest last, NaN where there is none.
  const at::Tensor& history() const { return history_; }
  // Takes a history of that shape; any other leaves none.
  void load(const at::Tensor& history);

 private:
  WireCast cast(int64_t bucket, const at::Tensor& gradients, const at::Tensor& wire,
                const at::Tensor& loss_scale) const;

  int rank_;
  int ranks_;
  int rank_bits_;  // ranks <= 2^rank_bits_
  bool known_ = false;
  bool told_ = true;  // whether the codes that were agreed for this step were finite
  at::Tensor history_;
  at::Tensor factors_;
  at::Tensor scratch_;  // (buckets, 2) int32, for the kernels
};

}  // namespace longship::comm
