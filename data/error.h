#pragma once

#include <stdexcept>
#include <string>

namespace longship::data {

// Input data that cannot be used. The message names the file and, where it applies, the line,
// dataset, column or series, and says what to do (exit code 3).
class DataError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace longship::data
