#include "runtime/config_numbers.h"

#include <fast_float/fast_float.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <system_error>

namespace longship::runtime {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// The parts of [+-] digits [. digits] [e [+-] digits].
struct Decimal {
  bool valid = false;
  bool whole = false;          // no point and no exponent
  bool leading_zeros = false;  // 08, 00.5: octal to some readers
  bool zero = true;            // no digit but 0 before the exponent
};

Decimal scan(std::string_view text) {
  Decimal found;
  size_t at = 0;
  if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
  auto digits = [&](bool mantissa) {
    const size_t begin = at;
    while (at < text.size() && is_digit(text[at])) {
      if (mantissa && text[at] != '0') found.zero = false;
      ++at;
    }
    return at - begin;
  };
  const size_t first = at;
  const size_t before = digits(true);
  found.leading_zeros = before > 1 && text[first] == '0';
  size_t after = 0;
  found.whole = true;
  if (at < text.size() && text[at] == '.') {
    ++at;
    after = digits(true);
    found.whole = false;
  }
  if (before + after == 0) return found;
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
    if (digits(false) == 0) return found;
    found.whole = false;
  }
  found.valid = at == text.size();
  return found;
}

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

// Why a text is no decimal number.
[[noreturn]] void refuse(std::string_view text) {
  const std::string shown(text);
  std::string bare = lower(text);
  if (!bare.empty() && (bare[0] == '+' || bare[0] == '-')) bare.erase(0, 1);
  if (!bare.empty() && bare[0] == '.') bare.erase(0, 1);
  if (bare == "inf" || bare == "infinity" || bare == "nan") {
    throw ValueError(shown + " is not a finite number");
  }
  if (bare.rfind("0x", 0) == 0 || bare.rfind("0o", 0) == 0 || bare.rfind("0b", 0) == 0) {
    throw ValueError(shown + " is not a decimal number: write it with the digits 0 to 9");
  }
  std::string without_marks;
  std::copy_if(text.begin(), text.end(), std::back_inserter(without_marks),
               [](char c) { return c != '_' && c != ',' && c != '\''; });
  if (without_marks.size() != text.size() && scan(without_marks).valid) {
    throw ValueError(shown + " is not a number: write " + without_marks +
                     " (or with a point for decimals)");
  }
  throw ValueError("'" + shown + "' is not a number");
}

Decimal checked_scan(std::string_view text) {
  const Decimal found = scan(text);
  if (!found.valid) refuse(text);
  if (found.leading_zeros) {
    throw ValueError(std::string(text) + " has leading zeros: write it without them");
  }
  return found;
}

}  // namespace

double parse_number(std::string_view text) {
  const Decimal found = checked_scan(text);
  const std::string_view body = text.front() == '+' ? text.substr(1) : text;
  double value = 0;
  const auto result = fast_float::from_chars(body.data(), body.data() + body.size(), value);
  // Versions of fast_float differ in whether they report overflow as an error.
  if (!std::isfinite(value)) throw ValueError(std::string(text) + " is too large for a number");
  if (value == 0 && !found.zero) {
    throw ValueError(std::string(text) + " is too small: the nearest number is 0");
  }
  if (result.ec != std::errc()) throw ValueError("'" + std::string(text) + "' is not a number");
  return value;
}

int64_t parse_integer(std::string_view text) {
  const Decimal found = checked_scan(text);
  const auto too_large = [&] {
    return ValueError(std::string(text) + " is beyond the largest integer, " +
                      std::to_string(std::numeric_limits<int64_t>::max()));
  };
  if (found.whole) {
    const std::string_view body = text.front() == '+' ? text.substr(1) : text;
    int64_t value = 0;
    const auto result = std::from_chars(body.data(), body.data() + body.size(), value);
    if (result.ec != std::errc()) throw too_large();
    return value;
  }
  const double value = parse_number(text);
  if (value != std::floor(value)) throw ValueError(std::string(text) + " is not a whole number");
  constexpr double kExact = 9007199254740992;  // 2^53: beyond it a double may have been rounded
  if (std::abs(value) > kExact) throw too_large();
  return static_cast<int64_t>(value);
}

std::string format_number(double value) {
  std::array<char, 64> buffer{};
  char* const begin = buffer.data();
  char* const end = begin + buffer.size();
  const double magnitude = std::abs(value);
  if (value == 0 || (magnitude >= 1e-4 && magnitude < 1e15)) {
    return std::string(begin, std::to_chars(begin, end, value, std::chars_format::fixed).ptr);
  }
  // "1e-08" as people write it: "1e-8".
  std::string text(begin, std::to_chars(begin, end, value, std::chars_format::scientific).ptr);
  const size_t exponent = text.find('e') + 1;
  if (text[exponent] == '+') text.erase(exponent, 1);
  const size_t digits = exponent + (text[exponent] == '-' ? 1 : 0);
  while (digits + 1 < text.size() && text[digits] == '0') text.erase(digits, 1);
  return text;
}

}  // namespace longship::runtime
