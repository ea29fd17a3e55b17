// The model of docs/custom_model.md, built from custom_model.cpp beside this file.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/optim/adam.h>

#include <fstream>
#include <sstream>

#include "test_models.h"

namespace longship::models {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const ModelShape kShape{.inputs = 3, .window = 5, .horizon = 2, .targets = 1};

std::string text_of(const std::string& path) {
  std::ifstream file(std::string(LONGSHIP_SOURCE_DIR) + "/" + path);
  EXPECT_TRUE(file.is_open()) << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(CustomModel, IsTheOneThatTheDocumentShows) {
  EXPECT_THAT(text_of("docs/custom_model.md"),
              HasSubstr("```cpp\n" + text_of("tests/models/custom_model.cpp") + "```\n"));
}

TEST(CustomModel, TakesItsOptions) {
  const auto model = make_model("gru", kShape, {{"hidden_size", int64_t{4}}, {"skip", false}});
  EXPECT_THAT(model->named_parameters()["gru.weight_hh_l0"].sizes(), ElementsAre(12, 4));
  EXPECT_THAT(model->named_parameters()["head.weight"].sizes(), ElementsAre(2, 4));
  const auto skipping = make_model("gru", kShape);
  EXPECT_THAT(skipping->named_parameters()["head.weight"].sizes(), ElementsAre(2, 64 + 3));
}

TEST(CustomModel, Trains) {
  const auto model = make_model("gru", kShape, {{"hidden_size", int64_t{16}}});
  const at::Tensor past = at::randn({32, 5, 3});
  // What comes next is the last value of the first input, and half of it.
  const at::Tensor target = past.select(1, 4).select(1, 0).unsqueeze(1) * at::tensor({1.0, 0.5});
  torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(0.02));
  std::vector<double> losses;
  for (int step = 0; step < 40; ++step) {
    optimizer.zero_grad();
    const at::Tensor loss = (run(*model, past).flatten(1) - target).square().mean();
    loss.backward();
    optimizer.step();
    losses.push_back(loss.item<double>());
  }
  EXPECT_LT(losses.back(), 0.1 * losses.front());
}

}  // namespace
}  // namespace longship::models
