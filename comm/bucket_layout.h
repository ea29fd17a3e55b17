#pragma once

#include <cstdint>
#include <vector>

#include "comm/gradient_reducer.h"

namespace longship::comm {

// Puts parameters of these element counts into buckets, in the given order (empty: in reverse,
// since backward reaches the last layers first); none is split; a bucket is closed before it would
// grow past its limit (bytes of FP32), so that only a parameter that is larger than the limit makes
// a larger bucket. Each parameter begins at a multiple of 16 bytes, which vectorised kernels want
// of the views.
std::vector<BucketLayout> make_bucket_layout(const std::vector<int64_t>& element_counts,
                                             int64_t first_bucket_bytes, int64_t bucket_bytes,
                                             std::vector<int64_t> order = {});

// Whether a layout holds each of these parameters once, aligned and without overlap.
bool is_layout_of(const std::vector<BucketLayout>& layout,
                  const std::vector<int64_t>& element_counts);

}  // namespace longship::comm
