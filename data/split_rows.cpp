#include "data/split_rows.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "data/error.h"

namespace longship::data {
namespace {

constexpr const char* kParts[] = {"train", "validation", "test"};
// Shares such as 0.7 + 0.1 + 0.2 do not add up to 1 exactly.
constexpr double kShareError = 1e-9;

void check(const SplitFractions& shares) {
  double sum = 0;
  for (size_t i = 0; i < shares.size(); ++i) {
    if (!(shares[i] >= 0 && shares[i] <= 1)) {
      throw DataError("data.split: the share of " + std::string(kParts[i]) + " is " +
                      std::to_string(shares[i]) + "; it must be 0 to 1");
    }
    sum += shares[i];
  }
  if (sum > 1 + kShareError) {
    throw DataError("data.split: the shares add up to " + std::to_string(sum) +
                    "; they must not exceed 1");
  }
}

std::string range_text(int64_t begin, int64_t end) {
  std::string text = "[";
  text += std::to_string(begin);
  text += ", ";
  text += std::to_string(end);
  return text += ']';
}

void check(const SplitRows& ranges) {
  int64_t last = 0;
  for (size_t i = 0; i < ranges.size(); ++i) {
    const auto [begin, end] = ranges[i];
    const std::string text = range_text(begin, end);
    if (begin < 0 || end < begin) {
      throw DataError("data.split: the row range " + text + " of " + kParts[i] +
                      " must be [begin, end) with 0 <= begin <= end");
    }
    if (begin == end) continue;
    if (begin < last) {
      throw DataError("data.split: the row range " + text + " of " + kParts[i] +
                      " starts before the part before it ends, at row " + std::to_string(last));
    }
    last = end;
  }
}

void check(const SplitDates& dates) {
  if (dates[1] < dates[0]) {
    throw DataError("data.split: the test part starts before the validation part");
  }
}

SplitBounds split(const SplitFractions& shares, int64_t rows, std::span<const int64_t>) {
  // Plain floor of a double product, as the published protocol computes it.
  const auto part = [rows](double share) {
    return static_cast<int64_t>(std::floor(share * static_cast<double>(rows)));
  };
  const bool whole = std::abs(shares[0] + shares[1] + shares[2] - 1) <= kShareError;
  const int64_t train = part(shares[0]);
  if (!whole) {
    const int64_t validation = train + part(shares[1]);
    return {{{0, train}, {train, validation}, {validation, validation + part(shares[2])}}};
  }
  // What rounding leaves over goes to validation, or to the part that is wanted at all.
  if (shares[1] == 0 && shares[2] == 0) return {{{0, rows}, {rows, rows}, {rows, rows}}};
  if (shares[1] == 0) return {{{0, train}, {train, train}, {train, rows}}};
  const int64_t test = rows - part(shares[2]);
  return {{{0, train}, {train, test}, {test, rows}}};
}

SplitBounds split(const SplitRows& ranges, int64_t rows, std::span<const int64_t>) {
  SplitBounds bounds;
  for (size_t i = 0; i < ranges.size(); ++i) {
    bounds[i] = {std::min(ranges[i][0], rows), std::min(ranges[i][1], rows)};
  }
  return bounds;
}

SplitBounds split(const SplitDates& dates, int64_t rows, std::span<const int64_t> time) {
  if (time.empty()) {
    throw DataError(
        "data.split gives dates, but the data have no time stamps; give shares or row ranges");
  }
  const auto row_of = [time](int64_t stamp) {
    return static_cast<int64_t>(std::lower_bound(time.begin(), time.end(), stamp) - time.begin());
  };
  const int64_t validation = row_of(dates[0]);
  const int64_t test = row_of(dates[1]);
  return {{{0, validation}, {validation, test}, {test, rows}}};
}

}  // namespace

void check_split(const SplitSpec& spec) {
  std::visit([](const auto& parts) { check(parts); }, spec);
}

SplitBounds split_rows(const SplitSpec& spec, int64_t rows, std::span<const int64_t> time) {
  return std::visit([&](const auto& parts) { return split(parts, rows, time); }, spec);
}

}  // namespace longship::data
