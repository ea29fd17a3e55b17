#pragma once

// Eight numbers of a half type at a time, for processors with AVX2 and F16C. Compiled for those
// whatever the rest of the program is compiled for; callers ask half_lanes_usable() first and carry
// LONGSHIP_HALF_LANES themselves.

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstdint>

#define LONGSHIP_HALF_LANES __attribute__((target("avx2,f16c")))

namespace longship::comm {

inline bool half_lanes_usable() {
  // Every processor with AVX2 has F16C, whose own name some compilers do not know.
  return __builtin_cpu_supports("avx2") != 0;
}

struct Float16Lanes {
  LONGSHIP_HALF_LANES static __m256 load(const uint16_t* from) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  }
  LONGSHIP_HALF_LANES static void store(uint16_t* to, __m256 value) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                     _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
};

struct Bfloat16Lanes {
  LONGSHIP_HALF_LANES static __m256 load(const uint16_t* from) {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
  }
  // To nearest, ties to even; any NaN becomes the quiet one.
  LONGSHIP_HALF_LANES static void store(uint16_t* to, __m256 value) {
    const __m256i bits = _mm256_castps_si256(value);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i rounded = _mm256_srli_epi32(
        _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff))), 16);
    const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(value, value, _CMP_UNORD_Q));
    const __m256i halves = _mm256_blendv_epi8(rounded, _mm256_set1_epi32(0x7fc0), is_nan);
    const __m128i low = _mm256_castsi256_si128(halves);
    const __m128i high = _mm256_extracti128_si256(halves, 1);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm_packus_epi32(low, high));
  }
};

}  // namespace longship::comm

#endif
