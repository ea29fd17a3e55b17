#include "comm/bucket_layout.h"

#include <cstddef>
#include <numeric>

namespace longship::comm {
namespace {

constexpr int64_t kBytesPerElement = 4;
constexpr int64_t kAlignment = 4;  // elements

int64_t aligned(int64_t elements) {
  return (elements + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

std::vector<BucketLayout> make_bucket_layout(const std::vector<int64_t>& element_counts,
                                             int64_t first_bucket_bytes, int64_t bucket_bytes,
                                             std::vector<int64_t> order) {
  if (order.empty()) {
    order.resize(element_counts.size());
    std::iota(order.rbegin(), order.rend(), 0);
  }
  std::vector<BucketLayout> buckets;
  for (const int64_t p : order) {
    const int64_t room = aligned(element_counts.at(static_cast<size_t>(p)));
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

bool is_layout_of(const std::vector<BucketLayout>& layout,
                  const std::vector<int64_t>& element_counts) {
  std::vector<bool> seen(element_counts.size());
  size_t count = 0;
  for (const BucketLayout& bucket : layout) {
    if (bucket.parameters.size() != bucket.offsets.size()) return false;
    int64_t end = 0;
    for (size_t i = 0; i < bucket.parameters.size(); ++i) {
      const auto p = static_cast<size_t>(bucket.parameters[i]);
      if (p >= seen.size() || seen[p] || bucket.offsets[i] != end) return false;
      seen[p] = true;
      ++count;
      end += aligned(element_counts[p]);
    }
    if (bucket.elements != end) return false;
  }
  return count == seen.size();
}

}  // namespace longship::comm
