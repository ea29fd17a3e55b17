#pragma once

#include <string>
#include <vector>

namespace longship::data {

// Per column: normalised = (value - shift) / scale. Fitted on training rows only.
struct Normalizer {
  std::string kind;  // "standard" (mean, population standard deviation), "minmax", "none"
  std::vector<std::string> columns;
  std::vector<double> shift;
  std::vector<double> scale;          // never zero: a constant column has scale 1
  std::vector<std::string> constant;  // names of the columns that were found constant

  // Index of a column. Throws DataError when the normaliser does not know it.
  size_t index(const std::string& column) const;
};

}  // namespace longship::data
