#pragma once

#include <cstdint>

namespace longship::comm {

// sum[i] += addend[i] in numbers of 16 bits: added in float32, rounded to nearest even. A sum past
// the type's range becomes infinite, NaN stays NaN.
void add_float16(const uint16_t* addend, uint16_t* sum, int64_t count);
void add_bfloat16(const uint16_t* addend, uint16_t* sum, int64_t count);

}  // namespace longship::comm
