#include "data/sample_order.h"

#include <stdexcept>
#include <string>

// Note [Sample order]
// All arithmetic is modulo 2^64. mix(x) is the finaliser of splitmix64:
//   x ^= x >> 30; x *= 0xbf58476d1ce4e5b9; x ^= x >> 27; x *= 0x94d049bb133111eb; x ^= x >> 31.
// GAMMA = 0x9e3779b97f4a7c15 (2^64 over the golden ratio).
//
//   key         = mix(mix(seed + GAMMA) ^ fingerprint)
//   epoch       = position / windows, index = position % windows
//   epoch key   = mix(key + (epoch + 1) * GAMMA)
//   half        = the smallest h >= 1 with 4^h >= windows; mask = 2^half - 1
//   permute(x)  : left = x >> half, right = x & mask; for round r = 1 .. 8:
//                 (left, right) = (right, left ^ (mix(epoch key + r * GAMMA + right) >> (64 -
//                 half))); the result is (left << half) | right
//   window      = permute(index), permuted again until it is below windows
//
// permute() is a bijection of [0, 4^half), a Feistel network whose rounds are undone in reverse.
// Walking on until the value is below `windows` follows a cycle of it that comes back to the index
// itself at the latest, so it ends, and its result is a bijection of [0, windows). 4^half is less
// than 4 windows, so the walk takes fewer than 4 steps on average. No table of the size of the data
// is needed, and any position can be computed alone: a resumed run of any number of ranks finds the
// same order.

namespace longship::data {
namespace {

constexpr uint64_t kGamma = 0x9e3779b97f4a7c15;
constexpr int kRounds = 8;

uint64_t mix(uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9;
  x ^= x >> 27;
  x *= 0x94d049bb133111eb;
  x ^= x >> 31;
  return x;
}

int half_bits(uint64_t windows) {
  int half = 1;
  while (half < 31 && (uint64_t{1} << (2 * half)) < windows) ++half;
  return half;
}

uint64_t permute(uint64_t x, uint64_t epoch_key, int half) {
  const uint64_t mask = (uint64_t{1} << half) - 1;
  uint64_t left = x >> half;
  uint64_t right = x & mask;
  for (uint64_t round = 1; round <= kRounds; ++round) {
    const uint64_t next = left ^ (mix(epoch_key + round * kGamma + right) >> (64 - half));
    left = right;
    right = next;
  }
  return (left << half) | right;
}

}  // namespace

SampleOrder::SampleOrder(uint64_t seed, uint64_t fingerprint, int64_t windows, bool shuffle)
    : key_(mix(mix(seed + kGamma) ^ fingerprint)), windows_(windows), shuffle_(shuffle) {
  if (windows < 1 || windows > (int64_t{1} << 62)) {
    throw std::invalid_argument("a sample order needs 1 to 2^62 windows, not " +
                                std::to_string(windows));
  }
}

int64_t SampleOrder::at(int64_t position) const {
  const int64_t index = position % windows_;
  if (!shuffle_) return index;
  const auto epoch = static_cast<uint64_t>(position / windows_);
  const uint64_t epoch_key = mix(key_ + (epoch + 1) * kGamma);
  const int half = half_bits(static_cast<uint64_t>(windows_));
  auto window = static_cast<uint64_t>(index);
  do {
    window = permute(window, epoch_key, half);
  } while (window >= static_cast<uint64_t>(windows_));
  return static_cast<int64_t>(window);
}

}  // namespace longship::data
