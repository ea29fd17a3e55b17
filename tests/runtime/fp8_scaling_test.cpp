#include "runtime/fp8_scaling.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "rank_group.h"
#include "runtime/error.h"
#include "runtime/model_setup.h"
#include "test_series.h"

namespace longship::runtime {
namespace {

using models::Fp8Layer;

// A model of two layers that only hold numbers.
class TwoLayers : public models::Forecaster {
 public:
  models::Forecast forward(const models::Inputs& /*inputs*/) override { return {}; }
  std::vector<Fp8Layer*> fp8_layers() override { return {&first, &second}; }
  Fp8Layer first;
  Fp8Layer second;
};

TEST(Fp8Scaling, TheNextScalesComeFromTheLargestOfAllRanks) {
  const tests::Group group = comm::make_local_group(3);
  tests::play_ranks(3, [&](int rank) {
    TwoLayers model;
    Fp8Scaling scaling(model, tests::member(group, rank), c10::kCPU);
    EXPECT_TRUE(model.first.from_itself);
    model.first.amax[Fp8Layer::kInput] = rank == 1 ? 7.0F : 1.0F;
    model.second.amax[Fp8Layer::kGradient] = rank == 2 ? 0.01F : 0.001F;
    scaling.agree();
    scaling.update();
    EXPECT_FALSE(model.first.from_itself);
    EXPECT_EQ(model.first.scale[Fp8Layer::kInput].item<float>(), 32);  // 7 < 2^3, of E4M3
    // 0.01 < 2^-6, of E5M2.
    EXPECT_EQ(model.second.scale[Fp8Layer::kGradient].item<float>(), 2097152);
    EXPECT_EQ(model.second.scale[Fp8Layer::kInput].item<float>(), 1);  // nothing came
    EXPECT_EQ(model.first.amax.max().item<float>(), 0);
  });
}

TEST(Fp8Scaling, TheLargestOfTheLastStepsCounts) {
  const auto alone = comm::make_local_communicator();
  TwoLayers model;
  Fp8Scaling scaling(model, *alone, c10::kCPU);
  const auto scale_after = [&](float amax) {
    model.first.amax[Fp8Layer::kInput] = amax;
    scaling.agree();
    scaling.update();
    return model.first.scale[Fp8Layer::kInput].item<float>();
  };
  EXPECT_EQ(scale_after(100), 2);
  for (int64_t step = 1; step < Fp8Scaling::kHistory; ++step) EXPECT_EQ(scale_after(1), 2) << step;
  EXPECT_EQ(scale_after(1), 128);
  // What is not finite, or nothing at all, tells nothing.
  EXPECT_EQ(scale_after(std::numeric_limits<float>::infinity()), 128);
  EXPECT_EQ(scale_after(std::nanf("")), 128);
  EXPECT_EQ(scale_after(0), 128);
}

TEST(Fp8Scaling, GoesOnFromItsState) {
  const auto alone = comm::make_local_communicator();
  at::Tensor state;
  {
    TwoLayers model;
    Fp8Scaling scaling(model, *alone, c10::kCPU);
    model.second.amax[Fp8Layer::kWeight] = 3.0F;
    scaling.update();
    state = scaling.state();
  }
  TwoLayers model;
  {
    Fp8Scaling scaling(model, *alone, c10::kCPU);
    scaling.load_state(at::zeros({1, 2}));  // of another model
    EXPECT_TRUE(model.second.from_itself);
    scaling.load_state(state);
    EXPECT_FALSE(model.second.from_itself);
    EXPECT_EQ(model.second.scale[Fp8Layer::kWeight].item<float>(), 64);
  }
  EXPECT_FALSE(model.second.amax.defined()) << "the layers outlive their scaling";
}

TEST(CheckFp8, NeedsAModelWithLayersForIt) {
  const tests::TemporaryFolder nowhere;
  const Config config = tests::wave_config(nowhere, {"precision.mode=fp8"});
  const auto linear = make_model(config);
  EXPECT_THROW(check_fp8(config, *linear), ConfigError);
  TwoLayers model;
  EXPECT_NO_THROW(check_fp8(config, model));
}

}  // namespace
}  // namespace longship::runtime
