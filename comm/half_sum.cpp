#include "comm/half_sum.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include "comm/half_lanes.h"

namespace longship::comm {
namespace {

template <typename T>
void add_scalars(const uint16_t* addend, uint16_t* sum, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const float a = T(addend[i], T::from_bits());
    const float b = T(sum[i], T::from_bits());
    sum[i] = T(a + b).x;
  }
}

#if defined(__x86_64__)
// Without vector instructions a conversion costs a dozen of others, and the sum would be slower
// than the network.
template <typename Lanes>
LONGSHIP_HALF_LANES int64_t add_lanes(const uint16_t* addend, uint16_t* sum, int64_t count) {
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    Lanes::store(sum + i, _mm256_add_ps(Lanes::load(addend + i), Lanes::load(sum + i)));
  }
  return i;
}
#endif

}  // namespace

void add_float16(const uint16_t* addend, uint16_t* sum, int64_t count) {
  int64_t done = 0;
#if defined(__x86_64__)
  if (half_lanes_usable()) done = add_lanes<Float16Lanes>(addend, sum, count);
#endif
  add_scalars<c10::Half>(addend + done, sum + done, count - done);
}

void add_bfloat16(const uint16_t* addend, uint16_t* sum, int64_t count) {
  int64_t done = 0;
#if defined(__x86_64__)
  if (half_lanes_usable()) done = add_lanes<Bfloat16Lanes>(addend, sum, count);
#endif
  add_scalars<c10::BFloat16>(addend + done, sum + done, count - done);
}

}  // namespace longship::comm
