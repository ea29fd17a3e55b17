#include "models/lstm_kernels.h"

#include <ATen/ATen.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "lstm_kernels_support.h"

namespace longship::models {
namespace {

using testing::HasSubstr;

struct Worst {
  double ours = 0;
  double cudnn = 0;
  double ratio = 0;
  std::string of;
};

// Errors of outputs and of every gradient, against float64, are at most 1.5 times cuDNN's.
class LstmParityGpu : public LstmKernelsGpu,
                      public testing::WithParamInterface<std::tuple<at::ScalarType, int64_t>> {};

TEST_P(LstmParityGpu, IsAsNearToFloat64AsCudnn) {
  const auto [type, hidden] = GetParam();
  std::map<std::string, Worst> worst;
  int cases = 0;
  std::vector<LstmKernelShape> shapes = {{type, 1024, 24, 100, hidden, 3},
                                         {type, 32, 512, 100, hidden, 2}};
  for (const int64_t layers : {1, 2, 3}) {
    for (const int64_t window : {1, 24, 50}) {
      for (const int64_t batch : {1, 7, 32, 256, 300}) {
        for (const int64_t inputs : {3, 100}) {
          shapes.push_back({type, batch, window, inputs, hidden, layers});
        }
      }
    }
  }
  for (const auto& [half, batch, window, inputs, units, layers] : shapes) {
    const Given given({half, batch, window, inputs, units, layers}, ++cases % 2 == 0);
    const Numbers exact = differentiate(given, at::kDouble, lstm_by_definition);
    const Numbers cudnn = differentiate(given, type, lstm_by_cudnn);
    const LstmKernels kernels(given.shape, 0);
    const PoisonedMemory poison;
    const Numbers ours = numbers_of(kernels, given, run_ours(kernels, given, given.layers()));

    const std::string shape = "batch " + std::to_string(batch) + ", window " +
                              std::to_string(window) + ", inputs " + std::to_string(inputs) +
                              ", layers " + std::to_string(layers);
    const auto compare = [&](const std::string& name, const at::Tensor& a, const at::Tensor& b,
                             const at::Tensor& reference) {
      ASSERT_EQ(a.sizes(), reference.sizes()) << name << ' ' << shape;
      if (reference.norm().item<double>() == 0) {
        EXPECT_EQ(a.abs().max().item<double>(), 0) << name << ' ' << shape;
        return;
      }
      const double error = error_of(a, reference);
      const double theirs = error_of(b, reference);
      // Of a few numbers cuDNN's may be right by luck: there, by two of the type's roundings
      // instead.
      const double rounding = type == at::kHalf ? 0x1p-10 : 0x1p-7;
      const double bound = reference.numel() < 50 ? std::max(theirs, rounding) : theirs;
      EXPECT_LE(error, 1.5 * bound) << name << ' ' << shape << " cuDNN " << theirs;
      Worst& w = worst[name.substr(0, name.find(' '))];
      w.ours = std::max(w.ours, error);
      w.cudnn = std::max(w.cudnn, theirs);
      if (error / theirs > w.ratio) {
        w.ratio = error / theirs;
        w.of = name + ' ' + shape;
      }
    };
    compare("output", ours.output, cudnn.output, exact.output);
    ASSERT_EQ(ours.gradients.size(), exact.gradients.size());
    for (size_t i = 0; i < exact.gradients.size(); ++i) {
      const std::vector<std::string> kinds = {"weight_ih", "weight_hh", "bias"};
      const std::string name =
          i == 0 ? "x" : kinds[(i - 1) % 3] + " l" + std::to_string((i - 1) / 3);
      compare(name, ours.gradients[i], cudnn.gradients[i], exact.gradients[i]);
    }
  }
  for (const auto& [name, w] : worst) {
    std::printf("%-9s ours <= %.1e, cuDNN <= %.1e, ratio <= %.2f (%s)\n", name.c_str(), w.ours,
                w.cudnn, w.ratio, w.of.c_str());
  }
}

INSTANTIATE_TEST_SUITE_P(Grid, LstmParityGpu,
                         testing::Combine(testing::Values(at::kHalf, at::kBFloat16),
                                          testing::Values(64, 128, 192, 256)),
                         [](const auto& grid) {
                           return std::string(at::toString(std::get<0>(grid.param))) +
                                  std::to_string(std::get<1>(grid.param));
                         });

std::vector<at::Tensor> all_of(const Ours& ours) {
  std::vector<at::Tensor> all = ours.tape.hidden;
  all.insert(all.end(), ours.tape.gates.begin(), ours.tape.gates.end());
  all.insert(all.end(), ours.tape.cells.begin(), ours.tape.cells.end());
  for (const LstmLayerGradients& g : ours.gradients) {
    all.insert(all.end(), {g.weight_ih, g.weight_hh, g.bias_ih, g.bias_hh});
  }
  all.push_back(ours.input_gradient);
  return all;
}

TEST_F(LstmKernelsGpu, RepeatsAgreeToTheBit) {
  for (const LstmKernelShape& shape : std::vector<LstmKernelShape>{
           {at::kHalf, 256, 50, 100, 256, 3}, {at::kBFloat16, 300, 24, 3, 192, 2}}) {
    const Given given(shape);
    const LstmKernels kernels(shape, 0);
    const auto weights = given.layers();
    const std::vector<at::Tensor> first = all_of(run_ours(kernels, given, weights));
    at::Tensor different = at::zeros({}, first[0].options().dtype(at::kLong));
    for (int i = 0; i < 1000; ++i) {
      const std::vector<at::Tensor> again = all_of(run_ours(kernels, given, weights));
      for (size_t k = 0; k < first.size(); ++k) different += first[k].ne(again[k]).sum();
    }
    EXPECT_EQ(different.item<int64_t>(), 0);
  }
}

// Others' kernels take processors away and give them back at any moment.
TEST_F(LstmKernelsGpu, BesideAStreamThatCompetesForProcessorsNothingChanges) {
  const LstmKernelShape shape{at::kHalf, 256, 50, 100, 256, 3};
  const Given given(shape);
  const LstmKernels kernels(shape, 0);
  const auto weights = given.layers();
  const std::vector<at::Tensor> alone = all_of(run_ours(kernels, given, weights));
  const at::Tensor matrix = at::randn({4096, 4096}, at::kCUDA).to(at::kHalf);
  at::cuda::device_synchronize();
  for (const bool high : {false, true}) {
    const c10::cuda::CUDAStream other = c10::cuda::getStreamFromPool(high);
    at::Tensor different = at::zeros({}, alone[0].options().dtype(at::kLong));
    at::Tensor product = matrix;
    for (int i = 0; i < 50; ++i) {
      {
        const c10::cuda::CUDAStreamGuard guard(other);
        for (int k = 0; k < 8; ++k) product = at::mm(matrix, product) / 64;
      }
      const std::vector<at::Tensor> again = all_of(run_ours(kernels, given, weights));
      for (size_t k = 0; k < alone.size(); ++k) different += alone[k].ne(again[k]).sum();
    }
    at::cuda::device_synchronize();
    EXPECT_EQ(different.item<int64_t>(), 0);
  }
}

TEST_F(LstmKernelsGpu, InferenceGivesWhatTrainingGives) {
  const Given given({at::kHalf, 37, 9, 5, 256, 2});
  const LstmKernels kernels(given.shape, 0);
  const LstmTape kept = run_forward(kernels, given.x, given.layers(), true);
  const LstmTape plain = run_forward(kernels, given.x, given.layers(), false);
  EXPECT_TRUE(plain.gates.empty());
  EXPECT_TRUE(at::equal(kept.hidden.back(), plain.hidden.back()));
  EXPECT_TRUE(
      at::equal(plain.last,
                kernels.to_sequence(kernels.output_rows(plain.hidden.back()), 256).select(1, -1)));
}

TEST_F(LstmKernelsGpu, BothGradientsOfTheOutputAdd) {
  const LstmKernelShape shape{at::kHalf, 11, 6, 16, 128, 2};
  Given given(shape);
  const LstmKernels kernels(shape, 0);
  const auto weights = given.layers();
  const LstmTape tape = run_forward(kernels, given.x, weights, true);
  const at::Tensor last = given.gradient.select(1, -1).clone();
  given.gradient.select(1, -1).zero_();
  auto split = kernels.zero_gradients();
  auto whole = kernels.zero_gradients();
  EXPECT_FALSE(
      kernels.backward(tape, weights, {kernels.to_rows(given.gradient), last}, split, false)
          .defined());
  given.gradient.select(1, -1).copy_(last);
  kernels.backward(tape, weights, {kernels.to_rows(given.gradient), {}}, whole, false);
  for (size_t i = 0; i < split.size(); ++i) {
    EXPECT_TRUE(at::equal(split[i].weight_hh, whole[i].weight_hh));
    EXPECT_TRUE(at::equal(split[i].bias_ih, whole[i].bias_ih));
  }
}

TEST_F(LstmKernelsGpu, WeightsAreCastWithColumnsOfZeros) {
  for (const int64_t layers : {1, 6}) {  // more than a launch takes
    const LstmKernelShape shape{at::kBFloat16, 8, 2, 13, 64, layers};
    const Given given(shape);
    const LstmKernels kernels(shape, 0);
    std::vector<at::Tensor> parameters;
    for (const at::Tensor& w : given.weights) parameters.push_back(w.to(at::kFloat) + 1e-4);
    const PoisonedMemory poison;
    const std::vector<LstmLayerWeights> cast = kernels.cast(parameters);
    kernels.wait_for_cast();
    ASSERT_EQ(cast.size(), static_cast<size_t>(layers));
    for (size_t i = 0; i < cast.size(); ++i) {
      const at::Tensor& ih = cast[i].weight_ih;
      const int64_t inputs = i == 0 ? 13 : 64;
      EXPECT_EQ(ih.size(1), i == 0 ? 16 : 64);
      EXPECT_TRUE(at::equal(ih.narrow(1, 0, inputs), parameters[4 * i].to(at::kBFloat16)));
      EXPECT_EQ(ih.narrow(1, inputs, ih.size(1) - inputs).abs().sum().item<double>(), 0);
      EXPECT_TRUE(at::equal(cast[i].weight_hh, parameters[4 * i + 1].to(at::kBFloat16)));
      EXPECT_TRUE(at::equal(cast[i].bias_hh, parameters[4 * i + 3]));
    }
  }
}

TEST_F(LstmKernelsGpu, GradientsAreAddedTo) {
  for (const int64_t inputs : {8, 13, 100}) {
    const Given given({at::kHalf, 40, 7, inputs, 64, 2}, true);
    const LstmKernels kernels(given.shape, 0);
    const auto weights = given.layers();
    Ours ours = run_ours(kernels, given, weights);
    std::vector<LstmLayerGradients> sums;
    for (const LstmLayerGradients& g : ours.gradients) {
      sums.push_back({at::ones_like(g.weight_ih), at::ones_like(g.weight_hh),
                      at::ones_like(g.bias_ih), at::full_like(g.bias_hh, 2)});
    }
    const at::Tensor last = given.gradient.select(1, -1).contiguous();
    kernels.backward(ours.tape, weights, {{}, last}, sums, false);
    for (size_t i = 0; i < sums.size(); ++i) {
      const LstmLayerGradients& g = ours.gradients[i];
      EXPECT_TRUE(at::allclose(sums[i].weight_ih, g.weight_ih + 1, 1e-6, 1e-6)) << inputs;
      EXPECT_TRUE(at::allclose(sums[i].weight_hh, g.weight_hh + 1, 1e-6, 1e-6)) << inputs;
      EXPECT_TRUE(at::allclose(sums[i].bias_ih, g.bias_ih + 1, 1e-6, 1e-6)) << inputs;
      EXPECT_TRUE(at::allclose(sums[i].bias_hh, g.bias_ih + 2, 1e-6, 1e-6)) << inputs;
    }
  }
}

TEST_F(LstmKernelsGpu, LayersAreAnnouncedFromTheLastToTheFirst) {
  const Given given({at::kHalf, 256, 5, 16, 256, 3}, true);
  const LstmKernels kernels(given.shape, 0);
  const auto weights = given.layers();
  const LstmTape tape = run_forward(kernels, given.x, weights, true);
  std::vector<int64_t> order;
  const at::Tensor last = given.gradient.select(1, -1).contiguous();
  auto gradients = kernels.zero_gradients();
  kernels.backward(tape, weights, {{}, last}, gradients, false, [&](int64_t layer) {
    const LstmLayerGradients& g = gradients.at(layer);
    // On the stream that is current now.
    EXPECT_GT(g.weight_ih.norm().item<double>(), 0);
    EXPECT_GT(g.weight_hh.norm().item<double>(), 0);
    EXPECT_GT(g.bias_hh.norm().item<double>(), 0);
    order.push_back(layer);
  });
  EXPECT_THAT(order, testing::ElementsAre(2, 1, 0));
}

TEST_F(LstmKernelsGpu, AGraphGivesWhatEagerCallsGive) {
  const LstmKernelShape shape{at::kHalf, 256, 50, 100, 256, 3};
  const Given given(shape, true);
  const Given other(shape, true);
  const LstmKernels kernels(shape, 0);
  const auto weights = given.layers();
  Ours recorded;
  at::cuda::CUDAGraph graph;
  at::cuda::device_synchronize();
  {
    const c10::cuda::CUDAStream stream = c10::cuda::getStreamFromPool();
    const c10::cuda::CUDAStreamGuard guard(stream);
    run_ours(kernels, given, weights);
    graph.capture_begin();
    recorded = run_ours(kernels, given, weights);
    graph.capture_end();
    given.x.copy_(other.x);
    for (int i = 0; i < 3; ++i) graph.replay();
    stream.synchronize();
  }
  const std::vector<at::Tensor> replayed = all_of(recorded);
  const std::vector<at::Tensor> eager = all_of(run_ours(kernels, given, weights));
  for (size_t i = 0; i < eager.size(); ++i) EXPECT_TRUE(at::equal(replayed[i], eager[i])) << i;
}

TEST_F(LstmKernelsGpu, OtherShapesHaveAReason) {
  const auto reason = [](LstmKernelShape shape) { return lstm_kernels_obstacle(shape, 0); };
  EXPECT_THAT(reason({at::kFloat, 8, 8, 8, 64, 1}), HasSubstr("fp16 and bf16"));
  EXPECT_THAT(reason({at::kHalf, 8, 8, 8, 100, 1}), HasSubstr("not 100"));
  EXPECT_THAT(reason({at::kHalf, 8, 8, 8, 512, 1}), HasSubstr("not 512"));
  EXPECT_THAT(reason({at::kHalf, 0, 8, 8, 64, 1}), HasSubstr("positive"));
  EXPECT_EQ(reason({at::kBFloat16, 1000, 999, 1, 256, 9}), "");
  EXPECT_THROW(LstmKernels({at::kHalf, 8, 8, 8, 100, 1}, 0), c10::Error);
}

}  // namespace
}  // namespace longship::models
