#pragma once

#include <cmath>
#include <cstdint>

#if defined(__CUDACC__)
#define LONGSHIP_HOST_DEVICE __host__ __device__
#else
#define LONGSHIP_HOST_DEVICE
#endif

namespace longship::comm {

// The arithmetic of Note [Wire scale] (comm/wire_scale.h), the same for a CPU and for a kernel.
// Exponents are as frexp counts them: |x| < 2^e.
struct WireCode {
  static constexpr int kLowest = -100;
  static constexpr int kHighest = 100;
  // Codes: 0 a bucket of zeros, 1 to 201 an exponent, 255 not finite. FP16 and BF16 hold each
  // exactly.
  static constexpr int kOffset = 1 - kLowest;
  static constexpr int kHighestCode = kHighest + kOffset;
  static constexpr int kNotFinite = 255;

  static constexpr int kCeiling = 15;  // sums stay below 2^15 on the wire
  static constexpr int kHeadroom = 6;  // after growing by 2^6
  static constexpr int kHistory = 16;  // steps

  // 2^k in float32, exactly, for |k| <= 126: by the bits of the format, since the exp2 of a GPU may
  // be off by a bit.
  LONGSHIP_HOST_DEVICE static float power_of_two(int k) {
    constexpr uint32_t kBias = 127;
    constexpr uint32_t kMantissaBits = 23;
    const uint32_t bits = (static_cast<uint32_t>(k) + kBias) << kMantissaBits;
    float value = 0;
    static_assert(sizeof value == sizeof bits);
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
  }

  // The code of a bucket whose largest magnitude is `largest`.
  LONGSHIP_HOST_DEVICE static int code(float largest) {
    if (largest == 0) return 0;
    if (!(largest <= 3.402823466e38F)) return kNotFinite;
    int exponent = 0;
    frexpf(largest, &exponent);
    exponent = exponent < kLowest ? kLowest : exponent > kHighest ? kHighest : exponent;
    return exponent + kOffset;
  }

  // 2^k for a bucket of which the largest exponent of the last steps is known.
  LONGSHIP_HOST_DEVICE static float factor(int exponent, int rank_bits) {
    return power_of_two(kCeiling - kHeadroom - rank_bits - exponent);
  }

  // The factor that follows from a history of exponents, NaN where there is none; without any, that
  // of exponent 0.
  LONGSHIP_HOST_DEVICE static float factor_of_history(const float* history, int rank_bits) {
    float largest = -1e9F;
    for (int i = 0; i < kHistory; ++i) {
      if (history[i] > largest) largest = history[i];
    }
    return factor(largest < kLowest ? 0 : static_cast<int>(largest), rank_bits);
  }

  // Adds a step to a history: the largest of the codes that all ranks got, as numbers. A step that
  // was not finite somewhere, or all zeros, tells nothing.
  template <typename Slots>
  LONGSHIP_HOST_DEVICE static void record(float* history, const Slots& slots, int ranks) {
    float largest = 0;
    for (int r = 0; r < ranks; ++r) {
      const float code = slots(r);
      if (!(code <= kHighestCode)) return;
      if (code > largest) largest = code;
    }
    if (largest < 1) return;
    for (int i = 0; i + 1 < kHistory; ++i) history[i] = history[i + 1];
    history[kHistory - 1] = largest - kOffset;
  }
};

}  // namespace longship::comm
