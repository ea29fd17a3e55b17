#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test_models.h"

namespace longship::models {
namespace {

using testing::ElementsAre;

// The outputs themselves are compared with torch.nn.Linear in lstm_test.cpp, in the same Python
// run.
TEST(Linear, MapsTheWholeWindowToTheWholeForecast) {
  const auto model =
      make_model("linear", {.inputs = 3, .window = 4, .horizon = 2, .targets = 5, .outputs = 2});
  EXPECT_THAT(model->named_parameters().keys(), ElementsAre("linear.weight", "linear.bias"));
  const at::Tensor weight = model->named_parameters()["linear.weight"];
  EXPECT_THAT(weight.sizes(), ElementsAre(20, 12));
  const at::Tensor past = at::zeros({1, 4, 3});
  past[0][3][1] = 1;  // element 3 * 3 + 1 of the flattened window
  const at::Tensor output = run(*model, past);
  EXPECT_THAT(output.sizes(), ElementsAre(1, 2, 5, 2));
  const at::Tensor expected = weight.select(1, 10) + model->named_parameters()["linear.bias"];
  EXPECT_TRUE(at::allclose(output.flatten(), expected));
}

TEST(Linear, EqualSeedsGiveEqualWeights) {
  const ModelShape shape{.inputs = 2, .window = 3, .horizon = 1, .targets = 1};
  const auto weight = [&](uint64_t seed) {
    return make_model("linear", shape, {}, seed)->named_parameters()["linear.weight"].clone();
  };
  EXPECT_TRUE(at::equal(weight(3), weight(3)));
  EXPECT_FALSE(at::equal(weight(3), weight(4)));
}

}  // namespace
}  // namespace longship::models
