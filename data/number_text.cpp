#include "data/number_text.h"

#include <array>
#include <charconv>
#include <cmath>

namespace longship::data {

std::string number_text(double value) {
  constexpr double kLeast = 1e-4;
  constexpr double kMost = 1e16;
  const double size = std::abs(value);
  const bool plain = value == 0 || (size >= kLeast && size < kMost);
  std::array<char, 32> text{};  // the longest, "-2.2250738585072014e-308", has 24
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value,
                                 plain ? std::chars_format::fixed : std::chars_format::scientific)
                       .ptr;
  return {text.data(), end};
}

}  // namespace longship::data
