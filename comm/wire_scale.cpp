#include "comm/wire_scale.h"

#include <ATen/Functions.h>
#include <c10/cuda/CUDAStream.h>

#include <bit>
#include <limits>
#include <tuple>

#include "comm/wire_cast.h"

namespace longship::comm {
namespace {

int width(int ranks) {
  return static_cast<int>(std::bit_width(static_cast<unsigned>(ranks - 1)));
}

// As WireCode::code(), for the one step for which it is agreed before anything is sent.
at::Tensor code(const at::Tensor& gradients, const at::Tensor& loss_scale) {
  constexpr double kInfinityNorm = std::numeric_limits<double>::infinity();
  at::Tensor largest = at::linalg_vector_norm(gradients, at::Scalar(kInfinityNorm));
  if (loss_scale.defined()) largest = largest.mul(loss_scale.reciprocal());
  const at::Tensor exponent = std::get<1>(at::frexp(largest));
  at::Tensor result = exponent.clamp(WireCode::kLowest, WireCode::kHighest).to(at::kFloat);
  result.add_(WireCode::kOffset);
  result.masked_fill_(largest.eq(0), 0);
  return result.masked_fill_(at::isfinite(largest).logical_not_(), WireCode::kNotFinite);
}

}  // namespace

WireScale::WireScale(int64_t buckets, int rank, int ranks, at::Device device)
    : rank_(rank), ranks_(ranks), rank_bits_(width(ranks)) {
  const auto options = at::TensorOptions().dtype(at::kFloat).device(device);
  history_ = at::full({buckets, kHistory}, std::numeric_limits<float>::quiet_NaN(), options);
  factors_ = at::ones({buckets}, options);
  scratch_ = at::zeros({buckets, 2}, options.dtype(at::kInt));
}

at::Tensor WireScale::codes(const std::vector<at::Tensor>& buckets, const at::Tensor& loss_scale) {
  std::vector<at::Tensor> all;
  all.reserve(buckets.size());
  for (const at::Tensor& bucket : buckets) all.push_back(code(bucket, loss_scale));
  return at::stack(all);
}

void WireScale::use_codes(const at::Tensor& codes) {
  const at::Tensor host = codes.cpu();
  const at::Tensor factors = at::empty({host.numel()}, at::kFloat);
  told_ = true;
  for (int64_t b = 0; b < host.numel(); ++b) {
    const int code = static_cast<int>(host.const_data_ptr<float>()[b]);
    const bool tells = code >= 1 && code <= WireCode::kHighestCode;
    told_ = told_ && code != WireCode::kNotFinite;
    factors.mutable_data_ptr<float>()[b] =
        WireCode::factor(tells ? code - WireCode::kOffset : 0, rank_bits_);
  }
  factors_.copy_(factors);
}

WireCast WireScale::cast(int64_t bucket, const at::Tensor& gradients, const at::Tensor& wire,
                         const at::Tensor& loss_scale) const {
  WireCast cast;
  cast.gradients = gradients.mutable_data_ptr<float>();
  cast.wire = wire.mutable_data_ptr();
  cast.elements = gradients.numel();
  cast.bfloat16 = wire.scalar_type() == at::kBFloat16;
  cast.rank = rank_;
  cast.ranks = ranks_;
  cast.rank_bits = rank_bits_;
  cast.loss_scale = loss_scale.defined() ? loss_scale.const_data_ptr<float>() : nullptr;
  cast.history = history_.mutable_data_ptr<float>() + bucket * kHistory;
  cast.factor = factors_.mutable_data_ptr<float>() + bucket;
  cast.from_history = known_;
  cast.scratch = reinterpret_cast<uint32_t*>(scratch_.mutable_data_ptr<int>()) + 2 * bucket;
  return cast;
}

void WireScale::pack(int64_t bucket, const at::Tensor& gradients, const at::Tensor& wire,
                     const at::Tensor& loss_scale) {
  const WireCast what = cast(bucket, gradients, wire, loss_scale);
  if (gradients.is_cpu()) {
    pack_wire_cpu(what);
  } else {
    pack_wire_cuda(what, c10::cuda::getCurrentCUDAStream(gradients.device().index()));
  }
}

void WireScale::unpack(int64_t bucket, const at::Tensor& wire, const at::Tensor& gradients,
                       const at::Tensor& loss_scale) {
  const WireCast what = cast(bucket, gradients, wire, loss_scale);
  if (gradients.is_cpu()) {
    unpack_wire_cpu(what);
  } else {
    unpack_wire_cuda(what, c10::cuda::getCurrentCUDAStream(gradients.device().index()));
  }
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
