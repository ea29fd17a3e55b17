#include "comm/wire_scale.h"

#include <ATen/Functions.h>

#include <bit>
#include <cmath>
#include <limits>
#include <tuple>

namespace longship::comm {
namespace {

// Exponents as frexp counts them: amax < 2^e.
constexpr int kLowest = -100;
constexpr int kHighest = 100;
// Codes: 0 a bucket of zeros, 1 to 201 an exponent, 255 not finite.
constexpr int kCodeOffset = 1 - kLowest;
constexpr int kHighestCode = kHighest + kCodeOffset;
constexpr int kNotFinite = 255;

constexpr int kCeiling = 15;  // sums stay below 2^15 on the wire
constexpr int kHeadroom = 6;  // after growing by 2^6

// 2^k in float32, exactly, for whole k of float32: by the bits of the format, since the pow and
// exp2 of a GPU may be off by a bit.
at::Tensor power_of_two(const at::Tensor& k) {
  constexpr int kBias = 127;
  constexpr int kMantissaBits = 23;
  const at::Tensor biased = k.to(at::kInt) + kBias;
  return at::bitwise_left_shift(biased, at::Scalar(kMantissaBits)).view(at::kFloat);
}

at::Tensor tells_an_exponent(const at::Tensor& codes) {
  return codes.ge(1).logical_and_(codes.le(kHighestCode));
}

}  // namespace

WireScale::WireScale(int64_t buckets, int ranks, at::Device device)
    : rank_bits_(std::bit_width(static_cast<unsigned>(ranks - 1))),
      history_(at::full({buckets, kHistory}, std::numeric_limits<float>::quiet_NaN(),
                        at::TensorOptions().dtype(at::kFloat).device(device))),
      factors_(at::ones({buckets}, history_.options())) {}

at::Tensor WireScale::code(const at::Tensor& gradients, const at::Tensor& inverse_loss_scale) {
  constexpr double kInfinityNorm = std::numeric_limits<double>::infinity();
  const at::Tensor largest =
      at::linalg_vector_norm(gradients, at::Scalar(kInfinityNorm)).mul(inverse_loss_scale);
  at::Tensor code = std::get<1>(at::frexp(largest)).clamp_(kLowest, kHighest).to(at::kFloat);
  code.add_(kCodeOffset);
  code.masked_fill_(largest.eq(0), 0);
  return code.masked_fill_(at::isfinite(largest).logical_not_(), kNotFinite);
}

void WireScale::use_history() {
  // NaN, no record, is smaller than any; a bucket that has none at all starts at 2^0.
  const at::Tensor largest =
      history_.nan_to_num(-std::numeric_limits<double>::infinity()).amax(/*dim=*/1);
  use_exponents(largest.masked_fill(at::isinf(largest), 0));
}

void WireScale::use_codes(const at::Tensor& codes) {
  const at::Tensor unknown = tells_an_exponent(codes).logical_not_();
  use_exponents((codes - kCodeOffset).masked_fill_(unknown, 0));
}

void WireScale::use_exponents(const at::Tensor& exponents) {
  factors_.copy_(power_of_two(kCeiling - kHeadroom - rank_bits_ - exponents));
}

void WireScale::record(const at::Tensor& codes) {
  const at::Tensor largest = codes.amax(/*dim=*/1, /*keepdim=*/true);
  const at::Tensor older = history_.narrow(1, 1, kHistory - 1);
  const at::Tensor extended = at::cat({older, largest - kCodeOffset}, 1);
  history_.copy_(at::where(tells_an_exponent(largest), extended, history_));
  known_ = true;
}

void WireScale::load(const at::Tensor& history) {
  if (history.defined() && history.sizes() == history_.sizes()) {
    history_.copy_(history.to(at::kFloat));
    known_ = at::isnan(history).logical_not().any().item<bool>();
  } else {
    history_.fill_(std::numeric_limits<float>::quiet_NaN());
    known_ = false;
  }
}

}  // namespace longship::comm
