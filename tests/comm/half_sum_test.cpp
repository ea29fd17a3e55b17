#include "comm/half_sum.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

namespace longship::comm {
namespace {

// Every bit pattern against a few addends, with a count that leaves a rest after whole vectors.
template <typename T, typename Add>
void check_all_patterns(Add add) {
  for (const float addend : {0.0F, 1.0F, -0.333F, 3.0e-7F, 60000.0F, -70000.0F}) {
    const T other(addend);
    std::vector<uint16_t> sums;
    for (uint32_t bits = 0; bits < 65536; ++bits) sums.push_back(static_cast<uint16_t>(bits));
    sums.resize(65536 - 3);
    const std::vector<uint16_t> addends(sums.size(), other.x);
    add(addends.data(), sums.data(), static_cast<int64_t>(sums.size()));
    for (size_t i = 0; i < sums.size(); ++i) {
      const T before(static_cast<unsigned short>(i), T::from_bits());
      const T want(static_cast<float>(other) + static_cast<float>(before));
      const T got(sums[i], T::from_bits());
      if (std::isnan(static_cast<float>(want))) {
        ASSERT_TRUE(std::isnan(static_cast<float>(got))) << i << " + " << addend;
      } else {
        ASSERT_EQ(got.x, want.x) << i << " + " << addend;
      }
    }
  }
}

TEST(HalfSum, AddsFloat16) {
  check_all_patterns<c10::Half>(add_float16);
}

TEST(HalfSum, AddsBFloat16) {
  check_all_patterns<c10::BFloat16>(add_bfloat16);
}

}  // namespace
}  // namespace longship::comm
