#include "data/sample_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <numeric>
#include <sstream>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

namespace longship::data {
namespace {

std::vector<int64_t> epoch_of(const SampleOrder& order, int64_t epoch) {
  std::vector<int64_t> windows;
  for (int64_t i = 0; i < order.windows(); ++i) {
    windows.push_back(order.at(epoch * order.windows() + i));
  }
  return windows;
}

TEST(SampleOrderTest, EveryEpochHoldsEveryWindowOnce) {
  for (const int64_t windows : {1, 2, 3, 4, 5, 16, 17, 1000, 4097}) {
    const SampleOrder order(7, 11, windows);
    std::vector<int64_t> all(static_cast<size_t>(windows));
    std::iota(all.begin(), all.end(), int64_t{0});
    for (int64_t epoch = 0; epoch < 3; ++epoch) {
      std::vector<int64_t> seen = epoch_of(order, epoch);
      std::sort(seen.begin(), seen.end());
      EXPECT_EQ(seen, all) << windows << " windows, epoch " << epoch;
    }
  }
}

TEST(SampleOrderTest, SeedFingerprintAndEpochChangeTheOrder) {
  const std::vector<int64_t> first = epoch_of(SampleOrder(1, 2, 500), 0);
  EXPECT_EQ(epoch_of(SampleOrder(1, 2, 500), 0), first);
  EXPECT_NE(epoch_of(SampleOrder(2, 2, 500), 0), first);
  EXPECT_NE(epoch_of(SampleOrder(1, 3, 500), 0), first);
  EXPECT_NE(epoch_of(SampleOrder(1, 2, 500), 1), first);
}

// Where the window of position 0 lies, over many seeds, is uniform: the chi-square of 16 cells
// stays below its 0.1 % point (37.7 at 15 degrees of freedom). Also for the windows of neighbours'
// distance.
TEST(SampleOrderTest, PlacesAreUniform) {
  std::vector<int64_t> place(16, 0);
  std::vector<int64_t> distance(16, 0);
  constexpr int kSeeds = 16'000;
  for (int seed = 0; seed < kSeeds; ++seed) {
    const SampleOrder order(static_cast<uint64_t>(seed), 99, 17);
    const int64_t first = order.at(0);
    if (first < 16) ++place[static_cast<size_t>(first)];
    ++distance[static_cast<size_t>((order.at(1) - first + 17) % 17 - 1)];
  }
  const auto chi_square = [](const std::vector<int64_t>& cells) {
    const double expected =
        static_cast<double>(std::accumulate(cells.begin(), cells.end(), int64_t{0})) / 16;
    double sum = 0;
    for (const int64_t cell : cells) {
      sum += (static_cast<double>(cell) - expected) * (static_cast<double>(cell) - expected) /
             expected;
    }
    return sum;
  };
  EXPECT_LT(chi_square(place), 37.7);
  EXPECT_LT(chi_square(distance), 37.7);
}

TEST(SampleOrderTest, WithoutShuffleWindowsComeInOrder) {
  const SampleOrder order(1, 2, 3, false);
  EXPECT_EQ(order.at(0), 0);
  EXPECT_EQ(order.at(4), 1);
  EXPECT_EQ(order.at(8), 2);
}

TEST(SampleOrderTest, RefusesNoWindows) {
  EXPECT_THROW(SampleOrder(1, 2, 0), std::invalid_argument);
}

TEST(SampleOrderTest, EqualsThePythonReference) {
  using Case = std::tuple<uint64_t, uint64_t, int64_t, int64_t>;
  for (const auto& [seed, fingerprint, windows, first] :
       {Case{42, 0x123456789abcdef0, 8209, 8200}, Case{0, 0, 1, 0}, Case{~uint64_t{0}, 5, 17, 1},
        Case{3, ~uint64_t{0}, int64_t{3} << 40, int64_t{5} << 42}}) {
    std::ostringstream command;
    command << LONGSHIP_PYTHON << ' ' << LONGSHIP_SOURCE_DIR
            << "/tests/data/sample_order_reference.py " << seed << ' ' << fingerprint << ' '
            << windows << ' ' << first << " 40";
    const auto close = [](FILE* pipe) { ::pclose(pipe); };
    const std::unique_ptr<FILE, decltype(close)> pipe(::popen(command.str().c_str(), "r"), close);
    ASSERT_TRUE(pipe);
    const SampleOrder order(seed, fingerprint, windows);
    for (int64_t position = first; position < first + 40; ++position) {
      long long expected = -1;
      ASSERT_EQ(std::fscanf(pipe.get(), "%lld", &expected), 1) << command.str();
      EXPECT_EQ(order.at(position), expected) << "position " << position << " of " << windows;
    }
  }
}

}  // namespace
}  // namespace longship::data
