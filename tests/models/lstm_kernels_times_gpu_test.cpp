// Times of the kernels beside cuDNN's, printed; no test of anything.
#include <ATen/ATen.h>
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "lstm_kernels_support.h"
#include "models/lstm_recurrence.h"

namespace longship::models {
namespace {

// Median of replays of a graph, in microseconds.
double microseconds(const std::function<void()>& work, int replays = 60) {
  at::cuda::CUDAGraph graph;
  record(graph, work);
  const c10::cuda::CUDAStream stream = c10::cuda::getStreamFromPool();
  const c10::cuda::CUDAStreamGuard guard(stream);
  std::vector<at::cuda::CUDAEvent> events;
  for (int i = 0; i <= replays; ++i) events.emplace_back(cudaEventDefault);
  for (int i = 0; i < 5; ++i) graph.replay();
  events[0].record(stream);
  for (int i = 0; i < replays; ++i) {
    graph.replay();
    events[i + 1].record(stream);
  }
  stream.synchronize();
  std::vector<double> times;
  for (int i = 0; i < replays; ++i) times.push_back(events[i].elapsed_time(events[i + 1]) * 1e3);
  std::nth_element(times.begin(), times.begin() + replays / 2, times.end());
  graph.reset();
  c10::cuda::CUDACachingAllocator::emptyCache();
  return times[replays / 2];
}

void print_times(const LstmKernelShape& shape) {
  const Given given(shape, true);
  const LstmKernels kernels(shape, 0);
  const auto weights = given.layers();
  const at::Tensor last = given.gradient.select(1, -1).contiguous();
  const LstmTape tape = run_forward(kernels, given.x, weights, true);

  const double infer = microseconds([&] { run_forward(kernels, given.x, weights, false); });
  const double forward = microseconds([&] { run_forward(kernels, given.x, weights, true); });
  auto gradients = kernels.zero_gradients();
  const double backward = microseconds([&] {
    kernels.backward(tape, weights, {{}, last}, gradients, false);
  });
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
                     hidden,
                     nullptr,
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

// Forward and backward as a table, the rows of docs/performance.md.
TEST_F(LstmKernelsGpu, DISABLED_TimesOfTheGrid) {
  constexpr int kFew = 7;
  for (const int64_t layers : {1, 2, 3}) {
    for (const int64_t hidden : {64, 128, 192, 256}) {
      for (const int64_t window : {24, 96, 512}) {
        std::printf("| %ld | %ld | %ld |", layers, hidden, window);
        for (const int64_t batch : {32, 64, 128, 256, 512, 1024}) {
          const LstmKernelShape shape{at::kHalf, batch, window, 32, hidden, layers};
          const Given given(shape, true);
          const LstmKernels kernels(shape, 0);
          const auto weights = given.layers();
          const double ours = microseconds([&] { run_ours(kernels, given, weights, false); }, kFew);
          std::vector<at::Tensor> leaves;
          for (const at::Tensor& w : given.weights) leaves.push_back(w.clone());
          {
            const at::NoGradGuard no_grad;
            constexpr int64_t kCudnnLstm = 2;
            at::_cudnn_rnn_flatten_weight(leaves, 4, shape.inputs, kCudnnLstm, hidden, 0, layers,
                                          true, false);
          }
          for (at::Tensor& w : leaves) w.requires_grad_();
          const double cudnns = microseconds(
              [&] {
                const at::Tensor output = lstm_by_cudnn(given.x, leaves);
                torch::autograd::grad({output}, leaves, {given.gradient});
              },
              kFew);
          std::printf(" %.2f (%.1f) |", ours / 1e3, cudnns / ours);
          std::fflush(stdout);
        }
        std::printf("\n");
      }
    }
  }
}

}  // namespace
}  // namespace longship::models
