#pragma once

#include <cstdint>

namespace longship::data {

// Which window stands at which position of the training stream, as a pure function of (seed,
// fingerprint, windows): epochs are concatenated, each is one permutation of all windows, and the
// permutation is computed per index (a Feistel network with cycle walking; no table).
//
// Position p lies in epoch p / windows. Step s (0-based) of batch size B takes the positions
// [s B, (s + 1) B); micro-batch g of size m takes [s B + g m, s B + (g + 1) m).
class SampleOrder {
 public:
  // windows >= 1. With shuffle false every epoch is 0, 1, 2, ...
  SampleOrder(uint64_t seed, uint64_t fingerprint, int64_t windows, bool shuffle = true);

  int64_t windows() const { return windows_; }
  // The window at a position >= 0.
  int64_t at(int64_t position) const;

 private:
  uint64_t key_;
  int64_t windows_;
  bool shuffle_;
};

}  // namespace longship::data
