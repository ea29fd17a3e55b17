#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace longship::data {

// The texts that stand for a missing value unless others are given.
const std::vector<std::string>& default_missing_values();

// What one cell holds.
enum class CellKind {
  kNumber,
  kMissing,
  kNumberLike,  // made of digits and marks, yet not a number in this notation: "1.299,99", "95%",
                // "$4"
  kText,
};

// Reads cells with one decimal mark. Digits are never grouped: a thousands mark makes a cell
// kNumberLike.
class CellParser {
 public:
  CellParser(char decimal, const std::vector<std::string>& missing_values);

  // `value` is set for kNumber (possibly infinite) and NaN otherwise.
  CellKind parse(std::string_view cell, double& value) const;
  char decimal() const { return decimal_; }

 private:
  char decimal_;
  std::vector<std::string> missing_;  // sorted
};

}  // namespace longship::data
