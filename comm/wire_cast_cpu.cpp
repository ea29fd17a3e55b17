#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <cmath>

#include "comm/half_lanes.h"
#include "comm/wire_cast.h"
#include "comm/wire_code.h"

namespace longship::comm {
namespace {

// The larger of two magnitudes; a NaN wins and stays.
float larger(float a, float b) {
  return b > a || std::isnan(b) ? b : a;
}

template <typename Half>
float pack_scalars(const float* gradients, uint16_t* wire, int64_t count, float factor) {
  float largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    largest = larger(largest, std::fabs(gradients[i]));
    wire[i] = Half(gradients[i] * factor).x;
  }
  return largest;
}

template <typename Half>
void unpack_scalars(const uint16_t* wire, float* gradients, int64_t count, float factor) {
  for (int64_t i = 0; i < count; ++i) {
    gradients[i] = static_cast<float>(Half(wire[i], Half::from_bits())) * factor;
  }
}

#if defined(__x86_64__)
template <typename Lanes>
LONGSHIP_HALF_LANES int64_t pack_lanes(const float* gradients, uint16_t* wire, int64_t count,
                                       float factor, float& largest) {
  const __m256 factors = _mm256_set1_ps(factor);
  const __m256i no_sign = _mm256_set1_epi32(0x7fffffff);
  // As bits, magnitudes order like numbers, and NaN above all.
  __m256i most = _mm256_setzero_si256();
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m256 values = _mm256_loadu_ps(gradients + i);
    most = _mm256_max_epi32(most, _mm256_and_si256(_mm256_castps_si256(values), no_sign));
    Lanes::store(wire + i, _mm256_mul_ps(values, factors));
  }
  alignas(32) float lanes[8];
  _mm256_store_ps(lanes, _mm256_castsi256_ps(most));
  for (const float lane : lanes) largest = larger(largest, lane);
  return i;
}

template <typename Lanes>
LONGSHIP_HALF_LANES int64_t unpack_lanes(const uint16_t* wire, float* gradients, int64_t count,
                                         float factor) {
  const __m256 factors = _mm256_set1_ps(factor);
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    _mm256_storeu_ps(gradients + i, _mm256_mul_ps(Lanes::load(wire + i), factors));
  }
  return i;
}
#endif

template <typename Half>
void pack(const WireCast& cast) {
  const float loss_scale = cast.loss_scale != nullptr ? *cast.loss_scale : 1.0F;
  if (cast.from_history) {
    *cast.factor = WireCode::factor_of_history(cast.history, cast.rank_bits);
  }
  const float to_wire = *cast.factor / loss_scale;
  auto* wire = static_cast<uint16_t*>(cast.wire);
  float largest = 0;
  int64_t done = 0;
#if defined(__x86_64__)
  if (half_lanes_usable()) {
    done = cast.bfloat16
               ? pack_lanes<Bfloat16Lanes>(cast.gradients, wire, cast.elements, to_wire, largest)
               : pack_lanes<Float16Lanes>(cast.gradients, wire, cast.elements, to_wire, largest);
  }
#endif
  largest = larger(largest, pack_scalars<Half>(cast.gradients + done, wire + done,
                                               cast.elements - done, to_wire));
  uint16_t* slots = wire + cast.elements;
  std::fill_n(slots, cast.ranks, uint16_t{0});
  slots[cast.rank] = Half(static_cast<float>(WireCode::code(largest * (1.0F / loss_scale)))).x;
}

template <typename Half>
void unpack(const WireCast& cast) {
  const float loss_scale = cast.loss_scale != nullptr ? *cast.loss_scale : 1.0F;
  const float from_wire = loss_scale / *cast.factor;
  const auto* wire = static_cast<const uint16_t*>(cast.wire);
  int64_t done = 0;
#if defined(__x86_64__)
  if (half_lanes_usable()) {
    done = cast.bfloat16
               ? unpack_lanes<Bfloat16Lanes>(wire, cast.gradients, cast.elements, from_wire)
               : unpack_lanes<Float16Lanes>(wire, cast.gradients, cast.elements, from_wire);
  }
#endif
  unpack_scalars<Half>(wire + done, cast.gradients + done, cast.elements - done, from_wire);
  const auto slot = [&](int r) {
    return static_cast<float>(Half(wire[cast.elements + r], Half::from_bits()));
  };
  WireCode::record(cast.history, slot, cast.ranks);
}

}  // namespace

void pack_wire_cpu(const WireCast& cast) {
  cast.bfloat16 ? pack<c10::BFloat16>(cast) : pack<c10::Half>(cast);
}

void unpack_wire_cpu(const WireCast& cast) {
  cast.bfloat16 ? unpack<c10::BFloat16>(cast) : unpack<c10::Half>(cast);
}

}  // namespace longship::comm
