#include "comm/bucket_layout.h"

namespace longship::comm {
namespace {

constexpr int64_t kBytesPerElement = 4;
constexpr int64_t kAlignment = 4;  // elements

int64_t aligned(int64_t elements) {
  return (elements + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

std::vector<BucketLayout> make_bucket_layout(const std::vector<int64_t>& element_counts,
                                             int64_t first_bucket_bytes, int64_t bucket_bytes) {
  std::vector<BucketLayout> buckets;
  for (int64_t p = static_cast<int64_t>(element_counts.size()) - 1; p >= 0; --p) {
    const int64_t room = aligned(element_counts[static_cast<size_t>(p)]);
    const int64_t limit = buckets.size() <= 1 ? first_bucket_bytes : bucket_bytes;
    if (buckets.empty() || (buckets.back().elements + room) * kBytesPerElement > limit) {
      buckets.emplace_back();
    }
    BucketLayout& bucket = buckets.back();
    bucket.parameters.push_back(p);
    bucket.offsets.push_back(bucket.elements);
    bucket.elements += room;
  }
  return buckets;
}

}  // namespace longship::comm
