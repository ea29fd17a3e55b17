#pragma once

#include <string>

namespace longship::data {

// The shortest text that reads back as the same number: "0.1", "1000000000"; with an exponent from
// 1e16 on and below 1e-4, as Python writes it: "1e+300".
std::string number_text(double value);

}  // namespace longship::data
