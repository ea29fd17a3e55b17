#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace longship::runtime {

// A value that breaks a key's rule. The message is the end of a sentence that begins with the key:
// "2.5 is not a whole number".
class ValueError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Decimal numbers in all usual spellings: 1, +1, .5, 1., 1e-3, 1E-3. Refused with the reason:
// infinity, not-a-number, overflow, underflow to zero, hexadecimal, leading zeros, underscores.
double parse_number(std::string_view text);

// As parse_number, and 1e2 or 2.0 where the value is exactly a whole number. Refuses what does not
// fit 64 bits.
int64_t parse_integer(std::string_view text);

// The shortest text that parse_number reads as the same double: "0.001", "1e-8", "65536".
std::string format_number(double value);

}  // namespace longship::runtime
