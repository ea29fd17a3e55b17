#include "comm/half_sum.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

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
// Compiled for F16C whatever the rest of the program is compiled for: without it a conversion costs
// a dozen instructions, and the sum would be slower than the network.
__attribute__((target("avx,f16c"))) int64_t add_float16_f16c(const uint16_t* addend, uint16_t* sum,
                                                             int64_t count) {
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const auto* a = reinterpret_cast<const __m128i*>(addend + i);
    auto* b = reinterpret_cast<__m128i*>(sum + i);
    const __m256 total =
        _mm256_add_ps(_mm256_cvtph_ps(_mm_loadu_si128(a)), _mm256_cvtph_ps(_mm_loadu_si128(b)));
    _mm_storeu_si128(b, _mm256_cvtps_ph(total, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  return i;
}
#endif

}  // namespace

void add_float16(const uint16_t* addend, uint16_t* sum, int64_t count) {
  int64_t done = 0;
#if defined(__x86_64__)
  // Every processor with AVX2 has F16C, whose own name some compilers do not know.
  if (__builtin_cpu_supports("avx2")) {
    done = add_float16_f16c(addend, sum, count);
  }
#endif
  add_scalars<c10::Half>(addend + done, sum + done, count - done);
}

void add_bfloat16(const uint16_t* addend, uint16_t* sum, int64_t count) {
  add_scalars<c10::BFloat16>(addend, sum, count);
}

}  // namespace longship::comm
