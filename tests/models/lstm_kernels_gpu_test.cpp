#include "models/lstm_kernels.h"

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/generated/variable_factories.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "models/lstm_recurrence.h"

namespace longship::models {
namespace {

using testing::HasSubstr;

TEST(LstmRounds, EveryTileRunsOnceAndAfterItsPredecessor) {
  for (const int64_t layers : {1, 2, 3, 4}) {
    for (const int64_t tiles : {1, 4, 29, 30, 31, 32, 59, 60, 61, 128}) {
      for (const int64_t clusters : {1, 7, 30, 66}) {
        std::set<std::pair<int64_t, int64_t>> before;
        int64_t waves = 0;
        for (const auto& round : lstm_rounds(layers, tiles, clusters)) {
          std::set<std::pair<int64_t, int64_t>> now;
          ASSERT_LE(round.size(), 2u);
          for (const LstmTiles& part : round) {
            ASSERT_GT(part.tiles, 0);
            for (int64_t tile = part.first; tile < part.first + part.tiles; ++tile) {
              ASSERT_TRUE(now.insert({part.layer, tile}).second);
              ASSERT_FALSE(before.contains({part.layer, tile}));
              if (part.layer > 0) {
                ASSERT_TRUE(before.contains({part.layer - 1, tile}));
              }
            }
          }
          waves += (static_cast<int64_t>(now.size()) + clusters - 1) / clusters;
          before.merge(now);
        }
        EXPECT_EQ(static_cast<int64_t>(before.size()), layers * tiles);
        // As few waves as there can be, unless a layer is less than one.
        const int64_t least = (layers * tiles + clusters - 1) / clusters;
        EXPECT_EQ(waves, tiles < clusters ? layers : least) << tiles << ' ' << clusters;
      }
    }
  }
}

TEST(LstmRounds, ThreeLayersOf32TilesOn30ClustersTakeFour) {
  const auto rounds = lstm_rounds(3, 32, 30);
  ASSERT_EQ(rounds.size(), 4u);
  EXPECT_EQ(rounds[1].front().first, 30);
  EXPECT_EQ(rounds[1].back().layer, 1);
  EXPECT_EQ(rounds[1].back().tiles, 28);
}

struct Numbers {
  at::Tensor output;
  std::vector<at::Tensor> gradients;  // of x, then weight_ih, weight_hh, bias_ih of each layer
};

// What a case is computed from: halves, as every implementation gets them.
struct Given {
  LstmKernelShape shape;
  at::Tensor x;
  std::vector<at::Tensor> weights;  // weight_ih, weight_hh, bias_ih, bias_hh of each layer
  at::Tensor gradient;              // of the output, (batch, window, hidden)
  bool last_only = false;           // it is zero but for the last step

  explicit Given(const LstmKernelShape& s, bool last = false) : shape(s), last_only(last) {
    const auto gpu = at::TensorOptions().device(at::kCUDA);
    x = at::randn({s.batch, s.window, s.inputs}, gpu).to(s.type);
    const double bound = 1 / std::sqrt(static_cast<double>(s.hidden));
    for (int64_t layer = 0; layer < s.layers; ++layer) {
      const int64_t inputs = layer == 0 ? s.inputs : s.hidden;
      for (const std::vector<int64_t>& size : std::vector<std::vector<int64_t>>{
               {4 * s.hidden, inputs}, {4 * s.hidden, s.hidden}, {4 * s.hidden}, {4 * s.hidden}}) {
        weights.push_back(at::empty(size, gpu).uniform_(-bound, bound).to(s.type));
      }
    }
    gradient = at::randn({s.batch, s.window, s.hidden}, gpu).to(s.type);
    if (last) gradient.narrow(1, 0, s.window - 1).zero_();
  }
  std::vector<LstmLayerWeights> layers() const {
    std::vector<LstmLayerWeights> all;
    for (size_t i = 0; i < weights.size(); i += 4) {
      all.push_back({weights[i], weights[i + 1], weights[i + 2].to(at::kFloat),
                     weights[i + 3].to(at::kFloat)});
    }
    return all;
  }
};

// By autograd, in a type, through a function of x and weights.
template <typename Forward>
Numbers differentiate(const Given& given, at::ScalarType type, const Forward& forward) {
  const at::AutoGradMode grad(true);
  const auto leaf = [&](const at::Tensor& t) {
    return t.detach().to(type, /*non_blocking=*/false, /*copy=*/true).requires_grad_();
  };
  const at::Tensor x = leaf(given.x);
  std::vector<at::Tensor> weights;
  for (const at::Tensor& w : given.weights) weights.push_back(leaf(w));
  const at::Tensor output = forward(x, weights);
  output.backward(given.gradient.to(type));
  Numbers numbers{output.detach(), {x.grad()}};
  for (size_t i = 0; i < weights.size(); ++i) {
    if (i % 4 != 3) numbers.gradients.push_back(weights[i].grad());
  }
  return numbers;
}

// Step by step, from its definition.
at::Tensor lstm_by_definition(at::Tensor x, const std::vector<at::Tensor>& weights) {
  for (size_t i = 0; i < weights.size(); i += 4) {
    const at::Tensor projected = at::linear(x, weights[i], weights[i + 2] + weights[i + 3]);
    const int64_t hidden = weights[i + 1].size(1);
    at::Tensor h = at::zeros({x.size(0), hidden}, x.options());
    at::Tensor c = h;
    std::vector<at::Tensor> steps;
    for (int64_t t = 0; t < x.size(1); ++t) {
      const auto gates = at::addmm(projected.select(1, t), h, weights[i + 1].t()).chunk(4, 1);
      c = gates[1].sigmoid() * c + gates[0].sigmoid() * gates[2].tanh();
      h = gates[3].sigmoid() * c.tanh();
      steps.push_back(h);
    }
    x = at::stack(steps, 1);
  }
  return x;
}

at::Tensor lstm_by_cudnn(const at::Tensor& x, const std::vector<at::Tensor>& weights) {
  const auto layers = static_cast<int64_t>(weights.size() / 4);
  const at::Tensor zeros = at::zeros({layers, x.size(0), weights[1].size(1)}, x.options());
  return std::get<0>(at::lstm(x, {zeros, zeros}, weights, /*has_biases=*/true, layers,
                              /*dropout=*/0.0, /*train=*/true, /*bidirectional=*/false,
                              /*batch_first=*/true));
}

struct Ours {
  LstmTape tape;
  LstmGradients gradients;
};

Ours run_ours(const LstmKernels& kernels, const Given& given,
              const std::vector<LstmLayerWeights>& weights, bool input_gradient = true) {
  Ours ours;
  ours.tape = kernels.forward(kernels.to_rows(given.x), weights, /*keep=*/true);
  LstmKernels::Incoming incoming;
  if (given.last_only) {
    incoming.last = given.gradient.select(1, -1).contiguous();
  } else {
    incoming.rows = kernels.to_rows(given.gradient);
  }
  ours.gradients = kernels.backward(ours.tape, weights, incoming, input_gradient);
  return ours;
}

Numbers numbers_of(const LstmKernels& kernels, const Given& given, const Ours& ours) {
  Numbers numbers{kernels.to_sequence(kernels.output_rows(ours.tape.hidden.back()).contiguous(),
                                      given.shape.hidden),
                  {kernels.to_sequence(ours.gradients.input, given.shape.inputs)}};
  for (const LstmLayerGradients& g : ours.gradients.layers) {
    numbers.gradients.insert(numbers.gradients.end(), {g.weight_ih, g.weight_hh, g.bias});
  }
  return numbers;
}

// While it lives, memory that nobody wrote holds NaN.
class PoisonedMemory {
 public:
  PoisonedMemory() { at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true); }
  ~PoisonedMemory() { at::globalContext().setDeterministicAlgorithms(false, false); }
  PoisonedMemory(const PoisonedMemory&) = delete;
  PoisonedMemory& operator=(const PoisonedMemory&) = delete;
};

double error_of(const at::Tensor& found, const at::Tensor& exact) {
  return ((found.to(at::kDouble) - exact).norm() / exact.norm()).item<double>();
}

class LstmKernelsGpu : public testing::Test {
 protected:
  void SetUp() override {
    const std::string obstacle = lstm_kernels_obstacle({at::kHalf, 8, 1, 8, 64, 1}, 0);
    if (!obstacle.empty()) GTEST_SKIP() << obstacle;
    at::manual_seed(5);
  }
};

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
  for (const int64_t layers : {1, 2, 3}) {
    for (const int64_t window : {1, 24, 50}) {
      for (const int64_t batch : {1, 7, 32, 256, 300}) {
        for (const int64_t inputs : {3, 100}) {
          const Given given({type, batch, window, inputs, hidden, layers}, ++cases % 2 == 0);
          const Numbers exact = differentiate(given, at::kDouble, lstm_by_definition);
          const Numbers cudnn = differentiate(given, type, lstm_by_cudnn);
          const LstmKernels kernels(given.shape, 0);
          const PoisonedMemory poison;
          const Numbers ours = numbers_of(kernels, given, run_ours(kernels, given, given.layers()));

          const std::string shape = "batch " + std::to_string(batch) + ", window " +
                                    std::to_string(window) + ", inputs " + std::to_string(inputs) +
                                    ", layers " + std::to_string(layers);
          const auto compare = [&](const std::string& name, const at::Tensor& a,
                                   const at::Tensor& b, const at::Tensor& reference) {
            ASSERT_EQ(a.sizes(), reference.sizes()) << name << ' ' << shape;
            if (reference.norm().item<double>() == 0) {
              EXPECT_EQ(a.abs().max().item<double>(), 0) << name << ' ' << shape;
              return;
            }
            const double error = error_of(a, reference);
            const double theirs = error_of(b, reference);
            // Of a few numbers cuDNN's may be right by luck: there, by the type's rounding instead.
            const double rounding = type == at::kHalf ? 0x1p-11 : 0x1p-8;
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
      }
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
  for (const LstmLayerGradients& g : ours.gradients.layers) {
    all.insert(all.end(), {g.weight_ih, g.weight_hh, g.bias});
  }
  all.push_back(ours.gradients.input);
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
    for (int i = 0; i < 100; ++i) {
      const std::vector<at::Tensor> again = all_of(run_ours(kernels, given, weights));
      for (size_t k = 0; k < first.size(); ++k) different += first[k].ne(again[k]).sum();
    }
    EXPECT_EQ(different.item<int64_t>(), 0);
  }
}

TEST_F(LstmKernelsGpu, InferenceGivesWhatTrainingGives) {
  const Given given({at::kHalf, 37, 9, 5, 256, 2});
  const LstmKernels kernels(given.shape, 0);
  const at::Tensor rows = kernels.to_rows(given.x);
  const LstmTape kept = kernels.forward(rows, given.layers(), true);
  const LstmTape plain = kernels.forward(rows, given.layers(), false);
  EXPECT_TRUE(plain.gates.empty());
  EXPECT_TRUE(at::equal(kept.hidden.back(), plain.hidden.back()));
  EXPECT_TRUE(
      at::equal(kernels.last_step(plain.hidden.back()),
                kernels.to_sequence(kernels.output_rows(plain.hidden.back()), 256).select(1, -1)));
}

TEST_F(LstmKernelsGpu, BothGradientsOfTheOutputAdd) {
  const LstmKernelShape shape{at::kHalf, 11, 6, 16, 128, 2};
  Given given(shape);
  const LstmKernels kernels(shape, 0);
  const auto weights = given.layers();
  const LstmTape tape = kernels.forward(kernels.to_rows(given.x), weights, true);
  const at::Tensor last = given.gradient.select(1, -1).clone();
  given.gradient.select(1, -1).zero_();
  const auto split =
      kernels.backward(tape, weights, {kernels.to_rows(given.gradient), last}, false);
  given.gradient.select(1, -1).copy_(last);
  const auto whole = kernels.backward(tape, weights, {kernels.to_rows(given.gradient), {}}, false);
  EXPECT_FALSE(split.input.defined());
  for (size_t i = 0; i < split.layers.size(); ++i) {
    EXPECT_TRUE(at::equal(split.layers[i].weight_hh, whole.layers[i].weight_hh));
    EXPECT_TRUE(at::equal(split.layers[i].bias, whole.layers[i].bias));
  }
}

TEST_F(LstmKernelsGpu, LayersAreAnnouncedFromTheLastToTheFirst) {
  const Given given({at::kHalf, 256, 5, 16, 256, 3}, true);
  const LstmKernels kernels(given.shape, 0);
  const auto weights = given.layers();
  const LstmTape tape = kernels.forward(kernels.to_rows(given.x), weights, true);
  std::vector<int64_t> order;
  const at::Tensor last = given.gradient.select(1, -1).contiguous();
  kernels.backward(tape, weights, {{}, last}, false,
                   [&](int64_t layer, const LstmLayerGradients& g) {
                     EXPECT_TRUE(g.weight_hh.isfinite().all().item<bool>());
                     order.push_back(layer);
                   });
  EXPECT_THAT(order, testing::ElementsAre(2, 1, 0));
}

// Runs work twice as it is, then records it.
void record(at::cuda::CUDAGraph& graph, const std::function<void()>& work) {
  const c10::cuda::CUDAStream stream = c10::cuda::getStreamFromPool();
  const c10::cuda::CUDAStreamGuard guard(stream);
  for (int i = 0; i < 2; ++i) work();
  stream.synchronize();
  graph.capture_begin();
  work();
  graph.capture_end();
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

// Median of replays of a graph, in microseconds.
double microseconds(const std::function<void()>& work) {
  at::cuda::CUDAGraph graph;
  record(graph, work);
  constexpr int kReplays = 60;
  const c10::cuda::CUDAStream stream = c10::cuda::getStreamFromPool();
  const c10::cuda::CUDAStreamGuard guard(stream);
  std::vector<at::cuda::CUDAEvent> events;
  for (int i = 0; i <= kReplays; ++i) events.emplace_back(cudaEventDefault);
  for (int i = 0; i < 5; ++i) graph.replay();
  events[0].record(stream);
  for (int i = 0; i < kReplays; ++i) {
    graph.replay();
    events[i + 1].record(stream);
  }
  stream.synchronize();
  std::vector<double> times;
  for (int i = 0; i < kReplays; ++i) times.push_back(events[i].elapsed_time(events[i + 1]) * 1e3);
  std::nth_element(times.begin(), times.begin() + kReplays / 2, times.end());
  return times[kReplays / 2];
}

void print_times(const LstmKernelShape& shape) {
  const Given given(shape, true);
  const LstmKernels kernels(shape, 0);
  const auto weights = given.layers();
  const at::Tensor rows = kernels.to_rows(given.x);
  const at::Tensor last = given.gradient.select(1, -1).contiguous();
  const LstmTape tape = kernels.forward(rows, weights, true);

  const double infer =
      microseconds([&] { kernels.forward(kernels.to_rows(given.x), weights, false); });
  const double forward =
      microseconds([&] { kernels.forward(kernels.to_rows(given.x), weights, true); });
  const double backward = microseconds([&] { kernels.backward(tape, weights, {{}, last}, false); });
  const double both = microseconds([&] { run_ours(kernels, given, weights, false); });

  // With weights in one piece, as cuDNN wants them.
  std::vector<at::Tensor> leaves;
  for (const at::Tensor& w : given.weights) leaves.push_back(w.clone());
  {
    const at::NoGradGuard no_grad;
    constexpr int64_t kCudnnLstm = 2;
    at::_cudnn_rnn_flatten_weight(leaves, 4, shape.inputs, kCudnnLstm, shape.hidden, 0,
                                  shape.layers, true, false);
  }
  const double cudnn_infer = microseconds([&] { lstm_by_cudnn(given.x, leaves); });
  for (at::Tensor& w : leaves) w.requires_grad_();
  const double cudnn_forward = microseconds([&] { lstm_by_cudnn(given.x, leaves); });
  const double cudnn_both = microseconds([&] {
    const at::Tensor output = lstm_by_cudnn(given.x, leaves);
    torch::autograd::grad({output}, leaves, {given.gradient});
  });
  std::printf(
      "%-8s batch %4ld window %3ld inputs %3ld hidden %3ld layers %ld | inference %5.0f, forward "
      "%5.0f, backward %5.0f, both %5.0f us | cuDNN inference %5.0f, forward %5.0f, both %5.0f us "
      "| "
      "%.2f x, %.2f x, %.2f x\n",
      at::toString(shape.type), shape.batch, shape.window, shape.inputs, shape.hidden, shape.layers,
      infer, forward, backward, both, cudnn_infer, cudnn_forward, cudnn_both, cudnn_infer / infer,
      cudnn_forward / forward, cudnn_both / both);
  std::fflush(stdout);
}

// The kernels by themselves: tiles of a batch of `tiles` * 8, of which clusters run `together`.
void print_recurrences(const LstmKernelKind& kind, int64_t tiles, int64_t window, int clusters) {
  const auto gpu = at::TensorOptions().device(at::kCUDA).dtype(at::kHalf);
  const int64_t rows = tiles * (window + 1) * kLstmTileRows;
  const int64_t hidden = kind.hidden;
  const at::Tensor projection = at::randn({rows, 4 * hidden}, gpu);
  const at::Tensor weight = at::randn({4 * hidden, hidden}, gpu) / 16;
  const at::Tensor bias = at::randn({4 * hidden}, gpu.dtype(at::kFloat));
  const at::Tensor h = at::empty({rows + kLstmTileRows, hidden}, gpu);
  const at::Tensor gates = at::empty({tiles * window, 32 * hidden}, gpu);
  const at::Tensor cells = at::empty({tiles * window, 8 * hidden}, bias.options());
  const at::Tensor gate_gradient = at::empty_like(projection);
  const at::Tensor output_gradient = at::randn({rows, hidden}, gpu);
  const at::Tensor bias_gradient = at::empty({tiles, 4 * hidden}, bias.options());
  LstmLaunch<LstmForwardJob> forward;
  forward.jobs[0] = {projection.const_data_ptr(),
                     weight.const_data_ptr(),
                     bias.const_data_ptr<float>(),
                     bias.const_data_ptr<float>(),
                     h.mutable_data_ptr(),
                     nullptr,
                     nullptr,
                     0,
                     tiles};
  LstmLaunch<LstmBackwardJob> backward;
  backward.jobs[0] = {output_gradient.const_data_ptr(),
                      nullptr,
                      weight.const_data_ptr(),
                      gates.const_data_ptr(),
                      cells.const_data_ptr<float>(),
                      gate_gradient.mutable_data_ptr(),
                      bias_gradient.mutable_data_ptr<float>(),
                      0,
                      tiles};
  forward.batch = backward.batch = tiles * kLstmTileRows;
  forward.window = backward.window = static_cast<int>(window);
  forward.layer_tiles = backward.layer_tiles = tiles;
  forward.kernel = backward.kernel = kind;
  forward.clusters = backward.clusters = clusters;
  const auto stream = [] { return c10::cuda::getCurrentCUDAStream().stream(); };
  const double infer = microseconds([&] { launch_lstm_forward(forward, stream()); });
  forward.jobs[0].gates = gates.mutable_data_ptr();
  forward.jobs[0].cells = cells.mutable_data_ptr<float>();
  const double train = microseconds([&] { launch_lstm_forward(forward, stream()); });
  const double back = microseconds([&] { launch_lstm_backward(backward, stream()); });
  std::printf(
      "hidden %d, %3ld tiles, %d together, window %3ld: forward without tape %.1f, with %.1f, "
      "backward %.1f us\n",
      kind.hidden, tiles, kind.tiles, window, infer, train, back);
  std::fflush(stdout);
}

// The products around them.
void print_products(const LstmKernelShape& shape) {
  const Given given(shape);
  const LstmKernels kernels(shape, 0);
  const auto gpu = given.x.options();
  const at::Tensor gates = at::randn({kernels.rows(), 4 * shape.hidden}, gpu) * 1e-3;
  const at::Tensor hidden = at::randn({kernels.rows(), shape.hidden}, gpu);
  const at::Tensor both = at::randn({kernels.rows(), 2 * shape.hidden}, gpu);
  const at::Tensor rows = kernels.to_rows(given.x);
  const at::Tensor& weight = given.weights[1];
  const at::Tensor bias = at::randn({16, 4 * shape.hidden}, gpu.dtype(at::kFloat));
  const auto mm = [&](const at::Tensor& a, const at::Tensor& b, at::ScalarType type) {
    at::Tensor out = at::empty({a.size(0), b.size(1)}, a.options().dtype(type));
    return microseconds([&] {
      if (type == a.scalar_type()) {
        at::mm_out(out, a, b);
      } else {
        at::mm_out(out, a, b, type);
      }
    });
  };
  std::printf(
      "rows %.1f, first projection %.1f, projection %.1f, dx %.1f, dW float %.1f, half %.1f, of "
      "both "
      "float %.1f, bias %.1f us\n",
      microseconds([&] { kernels.to_rows(given.x); }),
      mm(rows, at::randn({rows.size(1), 4 * shape.hidden}, gpu), shape.type),
      mm(hidden, weight.t(), shape.type), mm(gates, weight, shape.type),
      mm(gates.t(), hidden, at::kFloat), mm(gates.t(), hidden, shape.type),
      mm(gates.t(), both, at::kFloat), microseconds([&] { at::sum(bias, 0); }));
  std::fflush(stdout);
}

// Not a test: `longship_models_tests --gtest_also_run_disabled_tests
// --gtest_filter='*LstmKernelsGpu.DISABLED_Times*'` prints medians of graph replays.
TEST_F(LstmKernelsGpu, DISABLED_TimesOfTheSeedShape) {
  for (const at::ScalarType type : {at::kHalf, at::kBFloat16}) {
    print_times({type, 256, 50, 100, 256, 3});
  }
  const LstmKernels kernels({at::kHalf, 256, 50, 100, 256, 3}, 0);
  for (const int together : {1, 2}) {
    const LstmKernelKind kind{256, false, together};
    const int clusters = resident_lstm_forward_clusters(kind);
    std::printf("clusters at a time: forward %d, backward %d\n", clusters,
                resident_lstm_backward_clusters(kind));
    for (const int64_t tiles : {16, 30, 32, 60}) {
      for (const int64_t window : {2, 50}) print_recurrences(kind, tiles, window, clusters);
    }
  }
  print_products({at::kHalf, 256, 50, 100, 256, 1});
}

TEST_F(LstmKernelsGpu, DISABLED_TimesOfOtherShapes) {
  for (const LstmKernelShape& shape : std::vector<LstmKernelShape>{
           {at::kHalf, 240, 50, 100, 256, 1},
           {at::kHalf, 256, 50, 100, 256, 1},
           {at::kHalf, 32, 50, 100, 256, 3},
           {at::kHalf, 512, 50, 100, 256, 3},
           {at::kHalf, 1024, 50, 100, 256, 3},
           {at::kHalf, 256, 200, 100, 256, 3},
           {at::kHalf, 256, 50, 100, 128, 2},
           {at::kHalf, 1024, 50, 100, 128, 2},
           {at::kHalf, 256, 50, 100, 64, 2},
           {at::kHalf, 1024, 50, 100, 64, 2},
           {at::kHalf, 256, 50, 100, 192, 2},
       }) {
    print_times(shape);
  }
}

}  // namespace
}  // namespace longship::models
