#pragma once

#include <cstdint>

#if defined(__CUDACC__)
#define LONGSHIP_HOST_DEVICE __host__ __device__
#else
#define LONGSHIP_HOST_DEVICE
#endif

namespace longship::models {

// Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3",
// 2011): four random words as a function of a key and a counter, the same on a CPU and in a kernel.
struct Philox {
  uint32_t words[4];

  LONGSHIP_HOST_DEVICE static Philox at(uint64_t key, uint64_t counter) {
    constexpr uint32_t kMultiplier0 = 0xD2511F53;
    constexpr uint32_t kMultiplier1 = 0xCD9E8D57;
    constexpr uint32_t kWeyl0 = 0x9E3779B9;
    constexpr uint32_t kWeyl1 = 0xBB67AE85;
    constexpr int kRounds = 10;
    uint32_t key0 = static_cast<uint32_t>(key);
    uint32_t key1 = static_cast<uint32_t>(key >> 32U);
    Philox c = {{static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32U), 0, 0}};
    for (int round = 0; round < kRounds; ++round) {
      const uint64_t product0 = uint64_t{kMultiplier0} * c.words[0];
      const uint64_t product1 = uint64_t{kMultiplier1} * c.words[2];
      c = {{static_cast<uint32_t>(product1 >> 32U) ^ c.words[1] ^ key0,
            static_cast<uint32_t>(product1),
            static_cast<uint32_t>(product0 >> 32U) ^ c.words[3] ^ key1,
            static_cast<uint32_t>(product0)}};
      key0 += kWeyl0;
      key1 += kWeyl1;
    }
    return c;
  }
};

// SplitMix64's finaliser (Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
// 2014): close inputs give unrelated outputs.
LONGSHIP_HOST_DEVICE inline uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

// The key of one layer's draw in one micro-batch of one step.
LONGSHIP_HOST_DEVICE inline uint64_t draw_key(uint64_t seed, int64_t step, int64_t micro_batch,
                                              int64_t layer) {
  uint64_t key = mix(seed);
  key = mix(key ^ static_cast<uint64_t>(step));
  key = mix(key ^ static_cast<uint64_t>(micro_batch));
  return mix(key ^ static_cast<uint64_t>(layer));
}

// Whether a random word means "keep" with this probability: the word as a fraction of 2^32 is below
// it.
LONGSHIP_HOST_DEVICE inline bool keeps(uint32_t word, double probability) {
  return static_cast<double>(word) < probability * 4294967296.0;
}

}  // namespace longship::models
