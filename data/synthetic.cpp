#include "data/synthetic.h"

#include <ATen/Functions.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <numbers>
#include <random>
#include <string>

#include "data/error.h"

namespace longship::data {
namespace {

constexpr int64_t kHour = 3'600'000'000'000;
constexpr int64_t kStart = 1'577'836'800'000'000'000;  // 2020-01-01T00:00:00Z

// The standard library's distributions differ between implementations; this one does not.
class Random {
 public:
  Random(uint64_t seed, int64_t series, int64_t column) : engine_(seeded(seed, series, column)) {}
  double uniform() { return static_cast<double>(engine_() >> 11) * 0x1.0p-53; }  // [0, 1)
  double between(double low, double high) { return low + (high - low) * uniform(); }
  // Sum of twelve uniforms: mean 0, variance 1, without library functions that round differently.
  double normal() {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += uniform();
    return sum;
  }

 private:
  static std::mt19937_64 seeded(uint64_t seed, int64_t series, int64_t column) {
    std::seed_seq sequence{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32),
                           static_cast<uint32_t>(series), static_cast<uint32_t>(column)};
    return std::mt19937_64(sequence);
  }

  std::mt19937_64 engine_;
};

std::string gibibytes(double bytes) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f GiB", bytes / 0x1p30);
  return text.data();
}

void check(const SyntheticSpec& spec) {
  if (spec.series < 1 || spec.rows < 1 || spec.columns < 1) {
    throw DataError("synthetic data need at least one series, row and column");
  }
  constexpr int64_t kMostRows = (std::numeric_limits<int64_t>::max() - kStart) / kHour;
  if (spec.rows > kMostRows) {
    throw DataError(std::to_string(spec.rows) +
                    " hourly rows go beyond the year 2262, where times "
                    "in nanoseconds end; at most " +
                    std::to_string(kMostRows) + " fit");
  }
  const double bytes = static_cast<double>(spec.series) * static_cast<double>(spec.rows) *
                       (4 * static_cast<double>(spec.columns) + 8);
  const double memory =
      static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGESIZE));
  if (bytes > memory) {
    throw DataError("the series would take " + gibibytes(bytes) +
                    " of memory, and this machine has " + gibibytes(memory) +
                    "; make fewer series, rows or columns");
  }
  if (!(spec.missing >= 0 && spec.missing < 1)) {
    throw DataError("the missing share is " + std::to_string(spec.missing) +
                    "; it must be 0 to below 1");
  }
}

void fill(const SyntheticSpec& spec, int64_t series, int64_t column, float* out) {
  Random random(spec.seed, series, column);
  const double level = random.between(-10, 30);
  const double daily = random.between(1, 5);
  const double weekly = random.between(0.5, 2);
  const double daily_phase = random.between(0, 24);
  const double weekly_phase = random.between(0, 168);
  const double trend = random.between(-1, 1) / (24 * 365);
  const double memory = random.between(0.5, 0.9);
  double noise = 0;
  for (int64_t row = 0; row < spec.rows; ++row) {
    const auto hour = static_cast<double>(row);
    noise = memory * noise + 0.3 * random.normal();
    const bool lost = random.uniform() < spec.missing;
    const double value =
        level + trend * hour + daily * std::sin(2 * std::numbers::pi * (hour + daily_phase) / 24) +
        weekly * std::sin(2 * std::numbers::pi * (hour + weekly_phase) / 168) + noise;
    out[row * spec.columns] =
        lost ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(value);
  }
}

std::string numbered(const char* stem, int64_t number) {
  std::string name = stem;
  return name += std::to_string(number);
}

}  // namespace

SeriesTable make_synthetic(const SyntheticSpec& spec) {
  check(spec);
  SeriesTable table;
  for (int64_t column = 0; column < spec.columns; ++column) {
    table.columns.push_back(numbered("x", column));
  }
  table.values = at::empty({spec.series * spec.rows, spec.columns}, at::kFloat);
  table.time.reserve(static_cast<size_t>(spec.series * spec.rows));
  auto* values = table.values.mutable_data_ptr<float>();
  for (int64_t series = 0; series < spec.series; ++series) {
    table.series.push_back(numbered("series_", series));
    table.offsets.push_back((series + 1) * spec.rows);
    for (int64_t row = 0; row < spec.rows; ++row) table.time.push_back(kStart + row * kHour);
    for (int64_t column = 0; column < spec.columns; ++column) {
      fill(spec, series, column, values + series * spec.rows * spec.columns + column);
    }
  }
  return table;
}

}  // namespace longship::data
