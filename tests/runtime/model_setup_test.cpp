#include "runtime/model_setup.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/error.h"
#include "test_series.h"

namespace longship::runtime {
namespace {

using testing::ElementsAre;

std::shared_ptr<models::Forecaster> make(const std::vector<std::string>& overrides) {
  const tests::TemporaryFolder nowhere;
  return make_model(tests::wave_config(nowhere, overrides));
}

at::Tensor first_weight(const std::vector<std::string>& overrides) {
  return make(overrides)->parameters().front().detach().clone();
}

TEST(ModelSetup, TakesShapesAndOptionsFromTheSettings) {
  const auto model = make({"model.name=lstm", "model.hidden_size=16", "model.num_layers=1",
                           "train.loss=quantile", "train.quantiles=[0.1, 0.5, 0.9]"});
  EXPECT_THAT(model->named_parameters()["lstm.weight_ih_l0"].sizes(), ElementsAre(64, 2));
  EXPECT_THAT(model->named_parameters()["head.weight"].sizes(), ElementsAre(2 * 1 * 3, 16));
  models::Inputs inputs;
  inputs.past = at::zeros({5, 6, 2});
  EXPECT_THAT(model->forward(inputs).values.sizes(), ElementsAre(5, 2, 1, 3));
}

TEST(ModelSetup, WeightsFollowFromTheSeedAlone) {
  const at::Tensor weight = first_weight({"run.seed=7"});
  at::rand({10});
  EXPECT_TRUE(at::equal(first_weight({"run.seed=7"}), weight));
  EXPECT_FALSE(at::equal(first_weight({"run.seed=8"}), weight));
}

// Making the matrices of a wide model orthogonal takes minutes.
TEST(ModelSetup, WeightsThatDoNotMatterAreNotInitialised) {
  const tests::TemporaryFolder nowhere;
  const auto config =
      tests::wave_config(nowhere, {"model.name=lstm", "model.num_layers=1", "model.hidden_size=8"});
  const auto orthogonal = [&](Weights weights) {
    const auto model = make_model(config, weights);
    const at::Tensor w = model->named_parameters()["lstm.weight_hh_l0"].detach();
    return at::allclose(w.t().mm(w), at::eye(8), 1e-5, 1e-5);
  };
  EXPECT_TRUE(orthogonal(Weights::kInitialised));
  EXPECT_FALSE(orthogonal(Weights::kAny));
}

TEST(ModelSetup, AModelThatNoMemoryHoldsIsAnErrorOfTheConfiguration) {
  // 2e9 inputs to 1e9 outputs: more bytes than a process can address, however it may overcommit.
  EXPECT_THAT(
      [] {
        make({"data.window=1000000000", "data.horizon=1000000000"});
      },
      testing::ThrowsMessage<ConfigError>(
          testing::AllOf(testing::StartsWith("the model cannot be made: "),
                         testing::HasSubstr("make the model smaller"),
                         testing::HasSubstr("data.window, data.horizon"),
                         testing::Not(testing::HasSubstr("\n")))));
}

}  // namespace
}  // namespace longship::runtime
