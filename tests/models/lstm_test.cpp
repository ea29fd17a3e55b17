#include "models/lstm.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "python_reference.h"
#include "test_models.h"

namespace longship::models {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const ModelShape kShape{.inputs = 5, .window = 6, .horizon = 3, .targets = 2, .outputs = 2};

std::shared_ptr<Forecaster> small_lstm(std::map<std::string, OptionValue> changed = {},
                                       uint64_t seed = 1) {
  changed.emplace("hidden_size", int64_t{8});
  return make_model("lstm", kShape, std::move(changed), seed);
}

TEST(Lstm, OutputsAndGradientsAreThoseOfPyTorchInPython) {
  const auto lstm = small_lstm({{"init", std::string("torch")}});
  const auto linear = make_model("linear", kShape);
  const at::Tensor past = at::randn({7, 6, 5});
  tests::Tensors given{{"past", past}};
  for (const auto& p : lstm->named_parameters()) given["lstm/" + p.key()] = p.value();
  for (const auto& p : linear->named_parameters()) given["linear/" + p.key()] = p.value();
  const tests::Tensors found = tests::run_python("tests/models/lstm_reference.py", given);

  const at::Tensor output = run(*lstm, past);
  EXPECT_THAT(output.sizes(), ElementsAre(7, 3, 2, 2));
  EXPECT_TRUE(at::allclose(output.flatten(1), found.at("lstm"), 1e-5, 1e-5));
  EXPECT_TRUE(at::allclose(run(*linear, past).flatten(1), found.at("linear"), 1e-5, 1e-5));
  output.sum().backward();
  for (const auto& p : lstm->named_parameters()) {
    EXPECT_TRUE(at::allclose(p.value().grad(), found.at("grad/" + p.key()), 1e-4, 1e-5)) << p.key();
  }
}

TEST(Lstm, ParameterNamesAreThoseOfTorchNnLstm) {
  EXPECT_THAT(small_lstm({{"num_layers", int64_t{2}}})->named_parameters().keys(),
              ElementsAre("lstm.weight_ih_l0", "lstm.weight_hh_l0", "lstm.bias_ih_l0",
                          "lstm.bias_hh_l0", "lstm.weight_ih_l1", "lstm.weight_hh_l1",
                          "lstm.bias_ih_l1", "lstm.bias_hh_l1", "head.weight", "head.bias"));
}

TEST(Lstm, OfTheSeedArticleHas1419521Parameters) {
  const auto model = make_model("lstm", {.inputs = 100, .window = 50, .horizon = 1, .targets = 1});
  int64_t count = 0;
  for (const at::Tensor& parameter : model->parameters()) count += parameter.numel();
  EXPECT_EQ(count, 1'419'521);
}

TEST(Lstm, SeedInitialisationIsOrthogonalWithZeroBiases) {
  const auto model = small_lstm();
  for (const auto& p : model->named_parameters()) {
    const at::Tensor& w = p.value();
    if (w.dim() == 1) {
      EXPECT_EQ(w.abs().max().item<float>(), 0) << p.key();
    } else if (p.key().rfind("lstm.", 0) == 0) {
      // (4 hidden, n): more rows than columns, so the columns are orthonormal.
      EXPECT_TRUE(at::allclose(w.t().matmul(w), at::eye(w.size(1)), 1e-5, 1e-5)) << p.key();
    }
  }
  // Kaiming normal with fan-in 256: variance 2 / 256.
  const auto wide = make_model("lstm", {.inputs = 1, .window = 1, .horizon = 400, .targets = 1});
  EXPECT_NEAR(wide->named_parameters()["head.weight"].std().item<double>(), std::sqrt(2.0 / 256),
              0.002);
}

TEST(Lstm, TorchInitialisationStaysWithinItsBound) {
  const auto model = small_lstm({{"init", std::string("torch")}});
  for (const at::Tensor& parameter : model->parameters()) {
    const double largest = parameter.abs().max().item<double>();
    EXPECT_LE(largest, 1 / std::sqrt(8.0));
    EXPECT_GT(largest, 0);
  }
}

TEST(Lstm, EqualSeedsGiveEqualModels) {
  const auto a = small_lstm({}, 3)->parameters();
  const auto b = small_lstm({}, 3)->parameters();
  const auto c = small_lstm({}, 4)->parameters();
  for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(at::equal(a[i], b[i]));
  EXPECT_FALSE(at::equal(a[0], c[0]));
}

TEST(Lstm, VanishingDropoutOnThePathByLayersGivesTheFusedResult) {
  // So small that a mask holds only ones: the path is the one with dropout, its values are not.
  const auto by_layers = small_lstm({{"dropout", 1e-12}});
  const auto fused = small_lstm();
  const at::Tensor past = at::randn({4, 6, 5});
  const at::Tensor expected = run(*fused, past);
  const at::Tensor output = run(*by_layers, past);
  EXPECT_TRUE(at::allclose(output, expected, 1e-5, 1e-6));
  output.square().sum().backward();
  expected.square().sum().backward();
  for (const auto& p : fused->named_parameters()) {
    EXPECT_TRUE(
        at::allclose(by_layers->named_parameters()[p.key()].grad(), p.value().grad(), 1e-4, 1e-6))
        << p.key();
  }
}

TEST(Lstm, DropoutFollowsFromTheKeyAlone) {
  const auto model = small_lstm({{"dropout", 0.5}});
  const at::Tensor past = at::randn({4, 6, 5});
  const at::Tensor first = run(*model, past, random_key(1, 2, 3));
  EXPECT_TRUE(at::equal(first, run(*model, past, random_key(1, 2, 3))));
  EXPECT_FALSE(at::allclose(first, run(*model, past, random_key(2, 2, 3))));
  EXPECT_FALSE(at::allclose(first, run(*model, past, random_key(1, 3, 3))));
  EXPECT_FALSE(at::allclose(first, run(*model, past, random_key(1, 2, 4))));
}

TEST(Lstm, DropsNothingInEvaluationOrInASingleLayer) {
  const at::Tensor past = at::randn({4, 6, 5});
  const auto model = small_lstm({{"dropout", 0.5}});
  model->eval();
  EXPECT_TRUE(at::allclose(run(*model, past), run(*small_lstm(), past), 1e-5, 1e-6));
  const std::map<std::string, OptionValue> one{{"dropout", 0.5}, {"num_layers", int64_t{1}}};
  const auto single = small_lstm(one);
  EXPECT_TRUE(
      at::equal(run(*single, past, random_key(1, 2, 3)), run(*single, past, random_key(4, 5, 6))));
}

TEST(Lstm, OnCpusOwnKernelsAreNotTakenAndTheReasonIsTold) {
  const at::Tensor past = at::randn({4, 6, 5});
  const auto own = small_lstm({{"kernels", std::string("own")}});
  EXPECT_TRUE(at::equal(run(*own, past), run(*small_lstm(), past)));
  EXPECT_THAT(own->report(), ElementsAre(HasSubstr("model.kernels own: the LSTM's layers are "
                                                   "computed without own kernels, since they are "
                                                   "for GPUs")));
  Inputs inputs;
  inputs.past = past;
  const auto automatic = small_lstm({{"kernels", std::string("auto")}});
  EXPECT_THAT(automatic->implementations(inputs), ElementsAre());
  run(*automatic, past);
  EXPECT_THAT(automatic->report(), ElementsAre());
}

TEST(Lstm, AdvisesDimensionsThatTensorCoresUse) {
  const auto advice = [](int64_t hidden, int64_t inputs) {
    return make_model("lstm", {.inputs = inputs, .window = 1, .horizon = 1, .targets = 1},
                      {{"hidden_size", hidden}})
        ->advice();
  };
  EXPECT_THAT(advice(64, 16), ElementsAre());
  EXPECT_THAT(advice(250, 16),
              ElementsAre(AllOf(HasSubstr("model.hidden_size is 250"), HasSubstr("256"))));
  EXPECT_THAT(advice(64, 5),
              ElementsAre(AllOf(HasSubstr("number of inputs is 5"), HasSubstr(": 8 costs"))));
  EXPECT_EQ(advice(1, 1).size(), 2u);
}

}  // namespace
}  // namespace longship::models
