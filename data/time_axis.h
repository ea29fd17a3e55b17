#pragma once

#include <hdf5.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/hdf5_dataset.h"

namespace longship::data {

// Whether a dataset holds times: by its units, or by a usual name when it holds strings or
// integers.
bool is_time_axis(const Hdf5Dataset& dataset);

// The stamps of a time axis, in nanoseconds since 1970 UTC. Numbers go by their `units`: "hours
// since 2013-01-01", or a bare unit such as "ns" or "seconds" (since 1970); floats are rounded to
// what their digits can tell. Integers without units are taken as s, ms, us or ns since 1970 by
// their count of digits, which is said in `note`. Nothing when they cannot be told. Throws
// DataError when the axis has units or text that cannot be decoded, a calendar other than the
// standard one among them, times that do not fit, or numbers that may as well be dates.
std::optional<std::vector<int64_t>> read_time_axis(const Hdf5Dataset& dataset, std::string& note);

}  // namespace longship::data
