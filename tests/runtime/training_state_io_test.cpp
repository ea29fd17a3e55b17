#include "runtime/training_state_io.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/error.h"
#include "runtime/model_setup.h"
#include "test_series.h"

namespace longship::runtime {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::shared_ptr<models::Forecaster> make(int64_t seed) {
  const tests::TemporaryFolder nowhere;
  return make_model(tests::wave_config(nowhere, {"run.seed=" + std::to_string(seed)}));
}

std::string refusal(const std::vector<NamedTensor>& weights) {
  try {
    load_model_weights(*make(1), weights);
  } catch (const CheckpointError& error) {
    return error.what();
  }
  return "(not refused)";
}

std::vector<NamedTensor> stored() {
  std::vector<NamedTensor> weights = model_weights(*make(2));
  for (NamedTensor& weight : weights) weight.tensor = weight.tensor.clone();
  return weights;
}

TEST(TrainingStateIo, WeightsGoOutAndBack) {
  const auto model = make(1);
  const std::vector<NamedTensor> weights = stored();
  load_model_weights(*model, weights);
  const auto loaded = model_weights(*model);
  ASSERT_EQ(loaded.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(loaded[i].name, weights[i].name);
    EXPECT_TRUE(at::equal(loaded[i].tensor, weights[i].tensor));
    EXPECT_FALSE(loaded[i].tensor.requires_grad());
  }
  for (const at::Tensor& parameter : model->parameters()) EXPECT_TRUE(parameter.requires_grad());
}

TEST(TrainingStateIo, RefusesWeightsOfAnotherModelByName) {
  std::vector<NamedTensor> weights = stored();
  weights.pop_back();
  EXPECT_THAT(refusal(weights), HasSubstr("lacks linear.bias"));
  weights = stored();
  weights.push_back({"head.bias", at::zeros({2})});
  EXPECT_THAT(refusal(weights), HasSubstr("holds head.bias, which this model"));
  weights = stored();
  weights[0].tensor = at::zeros({2, 13});
  EXPECT_THAT(refusal(weights), AllOf(HasSubstr("linear.weight has the shape [2, 13]"),
                                      HasSubstr("this model's has [2, 12]")));
}

TEST(TrainingStateIo, NormaliserGoesOutAndBack) {
  data::Normalizer normalizer;
  normalizer.kind = "standard";
  normalizer.columns = {"a", "b"};
  normalizer.shift = {0.1, -1e300};
  normalizer.scale = {1.0 / 3, 1};
  normalizer.constant = {"b"};
  const auto text = normalizer_json(normalizer).dump();
  const data::Normalizer read = normalizer_from_json(nlohmann::json::parse(text));
  EXPECT_EQ(read.kind, normalizer.kind);
  EXPECT_EQ(read.columns, normalizer.columns);
  EXPECT_EQ(read.shift, normalizer.shift);
  EXPECT_EQ(read.scale, normalizer.scale);
  EXPECT_EQ(read.constant, normalizer.constant);
  EXPECT_THROW(normalizer_from_json({{"kind", "standard"}}), nlohmann::json::exception);
}

}  // namespace
}  // namespace longship::runtime
