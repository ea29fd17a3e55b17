#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

#include "python_reference.h"
#include "test_models.h"

namespace longship::models {
namespace {

std::shared_ptr<Forecaster> small_model(double dropout) {
  return make_model(
      "patch_transformer",
      {.inputs = 3, .window = 20, .horizon = 5, .targets = 3, .targets_are_inputs = true},
      {{"patch", int64_t{6}},
       {"stride", int64_t{3}},
       {"width", int64_t{16}},
       {"heads", int64_t{4}},
       {"feed_forward", int64_t{24}},
       {"num_layers", int64_t{2}},
       {"dropout", dropout}});
}

TEST(PatchTransformer, IsPyTorchsEncoderOverPatches) {
  const auto model = small_model(0);
  const at::Tensor past = at::randn({4, 20, 3});
  tests::Tensors given = {{"past", past}};
  for (const auto& parameter : model->named_parameters()) {
    given[parameter.key()] = parameter.value();
  }
  const tests::Tensors found =
      tests::run_python("tests/models/patch_transformer_reference.py", given);
  const at::Tensor forecast = run(*model, past);
  EXPECT_EQ(forecast.sizes(), at::IntArrayRef({4, 5, 3, 1}));
  EXPECT_TRUE(at::allclose(forecast.squeeze(-1), found.at("forecast"), 1e-5, 1e-6));
  forecast.square().sum().backward();
  for (const auto& parameter : model->named_parameters()) {
    EXPECT_TRUE(
        at::allclose(parameter.value().grad(), found.at("grad/" + parameter.key()), 1e-4, 1e-5))
        << parameter.key();
  }
}

TEST(PatchTransformer, DropoutFollowsFromTheKeyAlone) {
  const auto model = small_model(0.3);
  const at::Tensor past = at::randn({2, 20, 3});
  const at::Tensor first = run(*model, past, random_key(1, 2, 3));
  EXPECT_TRUE(at::equal(first, run(*model, past, random_key(1, 2, 3))));
  EXPECT_FALSE(at::allclose(first, run(*model, past, random_key(1, 2, 4))));
  model->eval();
  EXPECT_TRUE(
      at::equal(run(*model, past, random_key(1, 2, 3)), run(*model, past, random_key(9, 9, 9))));
}

TEST(PatchTransformer, ColumnsDoNotSeeEachOther) {
  const auto model = small_model(0);
  at::Tensor past = at::randn({2, 20, 3});
  const at::Tensor before = run(*model, past);
  past.select(2, 1).add_(1);
  const at::Tensor after = run(*model, past);
  EXPECT_TRUE(at::equal(before.select(2, 0), after.select(2, 0)));
  EXPECT_TRUE(at::equal(before.select(2, 2), after.select(2, 2)));
  EXPECT_FALSE(at::allclose(before.select(2, 1), after.select(2, 1)));
}

TEST(PatchTransformer, RefusesWhatDoesNotFit) {
  const auto refusal = [](const ModelShape& shape, std::map<std::string, OptionValue> options) {
    try {
      make_model("patch_transformer", shape, std::move(options));
    } catch (const std::invalid_argument& error) {
      return std::string(error.what());
    }
    return std::string("(not refused)");
  };
  EXPECT_THAT(refusal({.inputs = 3, .window = 32, .horizon = 1, .targets = 3}, {}),
              testing::HasSubstr("must be the same columns"));
  EXPECT_THAT(
      refusal({.inputs = 1, .window = 8, .horizon = 1, .targets = 1, .targets_are_inputs = true},
              {}),
      testing::HasSubstr("model.patch is longer than data.window"));
  EXPECT_THAT(
      refusal({.inputs = 1, .window = 32, .horizon = 1, .targets = 1, .targets_are_inputs = true},
              {{"heads", int64_t{7}}}),
      testing::HasSubstr("model.heads must divide model.width"));
}

// A window of 32 and patches of 16 every 8 make 4 patches; a layer's products by hand.
TEST(PatchTransformer, CountsItsOperations) {
  const auto model = make_model(
      "patch_transformer",
      {.inputs = 2, .window = 32, .horizon = 4, .targets = 2, .targets_are_inputs = true},
      {{"width", int64_t{32}},
       {"heads", int64_t{4}},
       {"feed_forward", int64_t{64}},
       {"num_layers", int64_t{1}}});
  const double layer = 4 * (4 * 32 * 32 + 2 * 32 * 64) + 2 * 4 * 4 * 32;
  EXPECT_EQ(model->forward_flops(), 2 * 2 * (4 * 16 * 32 + layer + 4 * 32 * 4));
}

}  // namespace
}  // namespace longship::models
