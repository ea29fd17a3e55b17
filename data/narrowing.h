#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

namespace longship::data {

// Two neighbouring values of a column that differ as doubles and are equal as float32.
struct LostChange {
  int64_t row_before = 0;
  int64_t row = 0;
  double before = 0;
  double value = 0;

  // "1000000000.25 and 1000000000.5, which are both 1000000000 in float32, and most of ..."
  std::string text() const;
};

// Makes float32 of the doubles of one column, and watches how much of the changes from value to
// value that costs. A float32 has 24 bits: of 1e9 + noise of 0.01 it keeps a constant, of seconds
// since 1970 a staircase of 128 s.
//
// Note [What float32 loses]
// The measure is the sum of the errors of the changes beside the sum of the changes. It asks what a
// shifted and scaled column would keep, so that it passes over what no model needs: a night of
// 1e-50 in a column of sunshine, a decay to a setpoint, the last bits of an interpolation. Counting
// the changes that vanish would refuse all of these. Above one half, less than half of the
// variation is left: white noise comes there with a deviation of 0.6 times the distance of two
// float32.
class Narrowing {
 public:
  // As float32; infinite beyond its range. Missing and infinite values are no change.
  float narrow(double value, int64_t row) {
    const auto held = static_cast<float>(value);
    if (value == last_ || !std::isfinite(value)) return held;
    const double change = value - last_;  // NaN at the first value, which then counts as none
    // Less are the last bits of a double, left over from what computed it.
    if (std::abs(change) > kRounding * std::abs(value)) {
      variation_ += std::abs(change);
      error_ += std::abs(double{held} - double{last_held_} - change);
      if (held == last_held_ && lost_++ == 0) first_ = {last_row_, row, last_, value};
    }
    last_ = value;
    last_held_ = held;
    last_row_ = row;
    return held;
  }

  // The first change that is lost when float32 loses the most of them; else nothing.
  std::optional<LostChange> lost() const {
    constexpr int64_t kLeast = 10;  // fewer prove little
    if (lost_ < kLeast || 2 * error_ <= variation_) return std::nullopt;
    return first_;
  }

 private:
  static constexpr double kRounding = 1e-13;

  double last_ = std::numeric_limits<double>::quiet_NaN();
  float last_held_ = 0;
  int64_t last_row_ = 0;
  double variation_ = 0;
  double error_ = 0;
  int64_t lost_ = 0;
  LostChange first_;
};

}  // namespace longship::data
