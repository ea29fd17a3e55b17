#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace longship::comm {

// The power of two by which each bucket is multiplied before it is cast to a half type.
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
// so nothing here waits for the device.
class WireScale {
 public:
  static constexpr int64_t kHistory = 16;  // steps

  WireScale(int64_t buckets, int ranks, at::Device device);

  // This rank's word on a bucket's gradients: float32 scalar, a whole number from 0 to 255 that all
  // wire types hold exactly. inverse_loss_scale: float32 scalar.
  static at::Tensor code(const at::Tensor& gradients, const at::Tensor& inverse_loss_scale);

  // Whether there is a history to take factors from. False: call agree() with agreed codes.
  bool known() const { return known_; }
  // Takes this step's factors from the history.
  void use_history();
  // Takes them from the maximum over ranks of the codes: float32 (buckets,).
  void use_codes(const at::Tensor& codes);
  // This step's factors 2^k: float32 (buckets,).
  const at::Tensor& factors() const { return factors_; }

  // Adds a step to the history. codes: float32 (buckets, ranks), what the slots held after the sum.
  void record(const at::Tensor& codes);

  // float32 (buckets, kHistory), exponents, the newest last, NaN where there is none.
  const at::Tensor& history() const { return history_; }
  // Takes a history of that shape; any other leaves none.
  void load(const at::Tensor& history);

 private:
  void use_exponents(const at::Tensor& exponents);

  int rank_bits_;  // size <= 2^rank_bits_
  bool known_ = false;
  at::Tensor history_;
  at::Tensor factors_;
};

}  // namespace longship::comm
