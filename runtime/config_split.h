#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "data/dataset.h"

namespace YAML {
class Node;
}

namespace longship::runtime {

// data.split in its three forms: shares [0.7, 0.1, 0.2]; row ranges [[0, 8640], [8640, 11520],
// [11520, 14400]], half open, per series; the dates {validation: 2013-10-01, test: 2013-11-15} at
// which these parts begin. Throws ValueError for another form, a share outside 0 to 1, shares above
// 1 in sum, ranges that overlap or run backwards, and dates out of order.
data::SplitSpec parse_split(const YAML::Node& node);

// As YAML on one line; parse_split reads the same value.
std::string format_split(const data::SplitSpec& split);

// Nanoseconds since 1970 UTC of "2013-10-01", "2013-10-01 06:00", "2013-10-01T06:00:00Z" or with an
// offset "+01:00"; UTC where no zone is given. Throws ValueError.
int64_t parse_date(std::string_view text);
std::string format_date(int64_t nanoseconds);

}  // namespace longship::runtime
