#include "data/synthetic.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/error.h"
#include "test_files.h"

namespace longship::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(SyntheticTest, ASeriesDependsOnlyOnSeedAndPlace) {
  SyntheticSpec spec;
  spec.rows = 400;
  const SeriesTable table = make_synthetic(spec);
  EXPECT_EQ(table.rows(), 1200);
  EXPECT_EQ(regular_step(table.offsets, table.time), 3'600'000'000'000);
  SyntheticSpec fewer = spec;
  fewer.series = 1;
  fewer.rows = 100;
  EXPECT_TRUE(at::equal(make_synthetic(fewer).values, table.values.narrow(0, 0, 100)));
  SyntheticSpec other = spec;
  other.seed = 43;
  EXPECT_FALSE(at::equal(make_synthetic(other).values, table.values));
}

TEST(SyntheticTest, HasADailyWave) {
  SyntheticSpec spec;
  spec.rows = 2400;
  const at::Tensor series = make_synthetic(spec).values.narrow(0, 0, 2400).select(1, 0);
  const auto difference = [&](int64_t lag) {
    return (series.narrow(0, lag, 2400 - lag) - series.narrow(0, 0, 2400 - lag)).abs().mean();
  };
  EXPECT_LT(difference(24).item<float>(), difference(12).item<float>());
}

TEST(SyntheticTest, RefusesWhatNoMachineHolds) {
  SyntheticSpec spec;
  spec.rows = 3'000'000;
  EXPECT_THAT(message_of<DataError>([&] { make_synthetic(spec); }),
              HasSubstr("beyond the year 2262"));
  spec.rows = 2'000'000;
  spec.series = 1'000'000'000'000;
  spec.columns = 1'000'000;
  EXPECT_THAT(message_of<DataError>([&] { make_synthetic(spec); }),
              AllOf(HasSubstr("GiB of memory"), HasSubstr("fewer series, rows or columns")));
}

TEST(SyntheticTest, LeavesOutTheWantedShare) {
  SyntheticSpec spec;
  spec.missing = 0.1;
  const float share = make_synthetic(spec).values.isnan().to(at::kFloat).mean().item<float>();
  EXPECT_NEAR(share, 0.1, 0.005);
  spec.missing = 1;
  EXPECT_THROW(make_synthetic(spec), DataError);
}

}  // namespace
}  // namespace longship::data
