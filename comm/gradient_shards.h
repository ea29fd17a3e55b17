#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "comm/gradient_reducer.h"

namespace longship::comm {

// Elements of the part of a bucket that one of `ranks` updates: an equal share, rounded up to whole
// 256 bytes of float32. All parts together are the bucket and zeros behind it.
int64_t shard_elements(int64_t bucket_elements, int64_t ranks);

// What a rank holds of the buckets when updates are sharded, and how parts travel. See
// Note [Sharded updates] in comm/gradient_reducer.h; GradientReducer is who uses it.
class GradientShards {
 public:
  // wire_dtype: float32, or a half type, with which every part has a slot for each rank's code
  // behind it, as a bucket on the wire has. The communicator must outlive this.
  GradientShards(const std::vector<at::Tensor>& parameters, const std::vector<BucketLayout>& layout,
                 Communicator& communicator, at::ScalarType wire_dtype);

  const std::vector<GradientPiece>& pieces() const { return pieces_; }
  // All parts, float32, one behind the other, and the part of one bucket.
  const at::Tensor& gradients() const { return gradients_; }
  at::Tensor gradients(size_t bucket) const;
  // Where the sums of a bucket arrive: its part of gradients(), or [sums | codes] of the half type.
  const at::Tensor& received(size_t bucket) const { return received_[bucket]; }

  // Starts the sum of a bucket. sent: (ranks * part,) of the wire's type.
  std::unique_ptr<Work> reduce(size_t bucket, const at::Tensor& sent);

  // The codes of the wire scales. sent: all buckets on the wire in one tensor, in which this rank's
  // code of bucket b stands at code_places[b], an int64 tensor. In parts: collect and spread are
  // work on the current stream.
  void collect_codes(const at::Tensor& sent, const at::Tensor& code_places);
  void exchange_codes();
  void spread_codes();

  void measure();
  void share_measure();
  const at::Tensor& squares() const { return squares_; }

  // The pieces' values into their parts, and the parts of all ranks into `buckets`.
  void pack_parameters();
  void exchange_parameters(const std::vector<at::Tensor>& buckets);

 private:
  void find_pieces(const std::vector<at::Tensor>& parameters,
                   const std::vector<BucketLayout>& layout);

  Communicator& communicator_;
  std::vector<int64_t> elements_;  // of this rank's part, by bucket
  std::vector<int64_t> starts_;    // of it in gradients_
  at::Tensor gradients_;
  at::Tensor received_storage_;
  std::vector<at::Tensor> received_;
  at::Tensor received_places_;  // of the codes in received_storage_, by rank and bucket
  at::Tensor own_codes_;        // (buckets,)
  at::Tensor all_codes_;        // (ranks * buckets,)
  at::Tensor own_squares_;      // (1,)
  at::Tensor squares_;          // (ranks,)
  std::vector<GradientPiece> pieces_;
  std::vector<at::Tensor> values_;  // of the pieces
  std::vector<at::Tensor> places_;  // of the pieces in gradients_
};

}  // namespace longship::comm
