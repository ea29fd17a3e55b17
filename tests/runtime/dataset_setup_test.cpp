#include "runtime/dataset_setup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test_series.h"

namespace longship::runtime {
namespace {

using testing::ElementsAre;

TEST(DatasetSetup, PassesEverySettingOn) {
  const tests::TemporaryFolder folder;
  const Config config = tests::wave_config(
      folder, {"data.path=[/data/x.h5, /data/y.h5]", "data.dataset=/group/x", "data.stride=3",
               "data.split=[0.5, 0.25, 0.25]", "data.normalize=minmax", "data.missing=drop"});
  const data::DatasetSpec spec = dataset_spec(config);
  EXPECT_THAT(spec.paths, ElementsAre("/data/x.h5", "/data/y.h5"));
  EXPECT_EQ(spec.dataset, "/group/x");
  EXPECT_THAT(spec.inputs, ElementsAre("a", "b"));
  EXPECT_THAT(spec.targets, ElementsAre("a"));
  EXPECT_EQ(spec.window, 6);
  EXPECT_EQ(spec.horizon, 2);
  EXPECT_EQ(spec.stride, 3);
  EXPECT_THAT(std::get<data::SplitFractions>(spec.split), ElementsAre(0.5, 0.25, 0.25));
  EXPECT_EQ(spec.normalize, "minmax");
  EXPECT_EQ(spec.missing, data::MissingPolicy::kDrop);
  EXPECT_FALSE(spec.normalizer);
}

TEST(DatasetSetup, ResolvesPathsAgainstTheRunFile) {
  const tests::TemporaryFolder folder;
  EXPECT_THAT(dataset_spec(tests::wave_config(folder)).paths, ElementsAre(folder / "series.h5"));
}

TEST(DatasetSetup, ATrainedNormaliserTakesThePlaceOfAFittedOne) {
  const tests::TemporaryFolder folder;
  write_waves(folder, {100});
  data::Normalizer trained;
  trained.kind = "standard";
  trained.columns = {"a", "b"};
  trained.shift = {1, 2};
  trained.scale = {3, 4};
  const auto dataset = data::Dataset::open(dataset_spec(tests::wave_config(folder), trained));
  EXPECT_THAT(dataset->normalizer().shift, ElementsAre(1, 2));
  const auto fitted = data::Dataset::open(dataset_spec(tests::wave_config(folder)));
  EXPECT_NE(fitted->normalizer().shift[0], 1);
}

}  // namespace
}  // namespace longship::runtime
