#include "data/csv_cell.h"

#include <fast_float/fast_float.h>

#include <algorithm>
#include <limits>
#include <system_error>

namespace longship::data {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Digits with marks, a sign, a currency or percent sign; an exponent. Dates, with a dash or colon
// between digits, are not.
bool number_like(std::string_view cell) {
  bool digits = false;
  for (size_t i = 0; i < cell.size(); ++i) {
    const char c = cell[i];
    if (is_digit(c)) {
      digits = true;
      continue;
    }
    if (c == '-' || c == '+') {
      const bool exponent = i > 0 && (cell[i - 1] == 'e' || cell[i - 1] == 'E');
      if (digits && !exponent) return false;
      continue;
    }
    if ((c == 'e' || c == 'E') && digits) continue;
    const auto byte = static_cast<unsigned char>(c);
    // Bytes of the euro, pound and yen signs and of narrow blanks, which group digits in some
    // countries.
    const bool foreign = byte == 0xe2 || byte == 0xc2 || byte == 0x82 || byte == 0xac ||
                         byte == 0xa3 || byte == 0xa5 || byte == 0xa0 || byte == 0x80 ||
                         byte == 0xaf;
    if (!foreign && std::string_view(".,' _%$()").find(c) == std::string_view::npos) return false;
  }
  return digits;
}

}  // namespace

const std::vector<std::string>& default_missing_values() {
  static const std::vector<std::string> kValues = {"",    "NA",  "N/A",  "n/a",  "#N/A", "<NA>",
                                                   "NaN", "nan", "NULL", "null", "None"};
  return kValues;
}

CellParser::CellParser(char decimal, const std::vector<std::string>& missing_values)
    : decimal_(decimal), missing_(missing_values) {
  std::sort(missing_.begin(), missing_.end());
}

CellKind CellParser::parse(std::string_view cell, double& value) const {
  value = std::numeric_limits<double>::quiet_NaN();
  if (std::binary_search(missing_.begin(), missing_.end(), cell)) return CellKind::kMissing;
  std::string_view digits = cell;
  if (digits.size() > 1 && digits.front() == '+' && digits[1] != '-' && digits[1] != '+') {
    digits.remove_prefix(1);
  }
  double parsed = 0;
  const fast_float::parse_options options(fast_float::chars_format::general, decimal_);
  const auto result = fast_float::from_chars_advanced(digits.data(), digits.data() + digits.size(),
                                                      parsed, options);
  const bool whole = result.ec == std::errc() && result.ptr == digits.data() + digits.size();
  // Without an own entry among the missing values, "nan" is no number.
  if (whole && parsed == parsed) {
    value = parsed;
    return CellKind::kNumber;
  }
  return number_like(cell) ? CellKind::kNumberLike : CellKind::kText;
}

}  // namespace longship::data
