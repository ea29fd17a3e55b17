#include "comm/gradient_shards.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <stdexcept>
#include <string>

namespace longship::comm {

namespace {

// Kernels want vectors of whole words.
int64_t aligned(int64_t elements) {
  constexpr int64_t kAlignment = 64;
  return (elements + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

int64_t shard_elements(int64_t bucket_elements, int64_t ranks) {
  return aligned((bucket_elements + ranks - 1) / ranks);
}

GradientShards::GradientShards(const std::vector<at::Tensor>& parameters,
                               const std::vector<BucketLayout>& layout, Communicator& communicator,
                               at::ScalarType wire_dtype)
    : communicator_(communicator) {
  const int64_t ranks = communicator.size();
  int64_t all = 0;
  for (const BucketLayout& bucket : layout) {
    starts_.push_back(all);
    elements_.push_back(shard_elements(bucket.elements, ranks));
    all += elements_.back();
  }
  const auto buckets = static_cast<int64_t>(layout.size());
  const auto options = at::TensorOptions().device(parameters.front().device());
  gradients_ = at::zeros({all}, options.dtype(at::kFloat));
  own_squares_ = at::zeros({1}, options.dtype(at::kDouble));
  squares_ = at::zeros({ranks}, options.dtype(at::kDouble));
  if (wire_dtype == at::kFloat) {
    for (size_t b = 0; b < layout.size(); ++b) received_.push_back(gradients(b));
  } else {
    received_storage_ = at::zeros({all + buckets * aligned(ranks)}, options.dtype(wire_dtype));
    const at::Tensor places = at::empty({ranks, buckets}, at::kLong);
    int64_t start = 0;
    for (int64_t b = 0; b < buckets; ++b) {
      const int64_t elements = elements_[static_cast<size_t>(b)];
      received_.push_back(received_storage_.narrow(0, start, elements + ranks));
      for (int64_t r = 0; r < ranks; ++r) places[r][b] = start + elements + r;
      start += elements + aligned(ranks);
    }
    received_places_ = places.view(-1).to(options.device());
    own_codes_ = at::zeros({buckets}, options.dtype(wire_dtype));
    all_codes_ = at::zeros({ranks * buckets}, options.dtype(wire_dtype));
  }
  find_pieces(parameters, layout);
}

// A bucket's parts are runs of it, so a rank has at most one run of any parameter.
void GradientShards::find_pieces(const std::vector<at::Tensor>& parameters,
                                 const std::vector<BucketLayout>& layout) {
  for (size_t b = 0; b < layout.size(); ++b) {
    const int64_t begin = communicator_.rank() * elements_[b];
    const int64_t end = begin + elements_[b];
    for (size_t i = 0; i < layout[b].parameters.size(); ++i) {
      const int64_t index = layout[b].parameters[i];
      const at::Tensor& parameter = parameters[static_cast<size_t>(index)];
      if (!parameter.is_contiguous()) {
        throw std::invalid_argument("optimizer.shard needs contiguous parameters, and parameter " +
                                    std::to_string(index) + " is none");
      }
      const int64_t offset = layout[b].offsets[i];
      const int64_t from = std::max(begin, offset) - offset;
      const int64_t to = std::min(end, offset + parameter.numel()) - offset;
      if (from >= to) continue;
      GradientPiece piece;
      piece.parameter = index;
      piece.begin = from;
      piece.values = parameter.detach().view(-1).narrow(0, from, to - from);
      piece.gradient = gradients_.narrow(0, starts_[b] + offset + from - begin, to - from);
      values_.push_back(piece.values);
      places_.push_back(piece.gradient);
      pieces_.push_back(std::move(piece));
    }
  }
}

at::Tensor GradientShards::gradients(size_t bucket) const {
  return gradients_.narrow(0, starts_[bucket], elements_[bucket]);
}

std::unique_ptr<Work> GradientShards::reduce(size_t bucket, const at::Tensor& sent) {
  return communicator_.reduce_scatter_async(sent, received_[bucket].narrow(0, 0, elements_[bucket]),
                                            ReduceOp::kSum);
}

void GradientShards::collect_codes(const at::Tensor& sent, const at::Tensor& code_places) {
  at::index_select_out(own_codes_, sent, 0, code_places);
}

void GradientShards::exchange_codes() {
  communicator_.all_gather(own_codes_, all_codes_);
}

void GradientShards::spread_codes() {
  received_storage_.index_copy_(0, received_places_, all_codes_);
}

void GradientShards::measure() {
  own_squares_.copy_(
      at::linalg_vector_norm(gradients_, 2, c10::nullopt, false, at::kDouble).square());
}

void GradientShards::share_measure() {
  communicator_.all_gather(own_squares_, squares_);
}

void GradientShards::pack_parameters() {
  if (!places_.empty()) at::_foreach_copy_(places_, values_);
}

void GradientShards::exchange_parameters(const std::vector<at::Tensor>& buckets) {
  for (size_t b = 0; b < buckets.size(); ++b) {
    communicator_.all_gather(gradients(b), buckets[b]);
  }
}

}  // namespace longship::comm
