#pragma once

#include <ATen/core/Tensor.h>
#include <c10/cuda/CUDAStream.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "models/lstm_recurrence.h"

namespace longship::models {

// LSTM layers by kernels of our own, for Hopper GPUs: a whole window of a layer is one launch of a
// kernel that keeps the recurrent weights in registers (models/kernels/lstm_forward.cu and
// lstm_backward.cu); what is left are large matrix products, which cuBLAS does. Gates, cell states
// and sums are FP32, everything that is stored for products fp16 or bfloat16. Initial states are
// zero. Repeats agree to the bit. Everything runs on the current stream, waits for nothing on the
// host and can be captured in a CUDA graph (run once before, as cuBLAS asks for memory then).

struct LstmKernelShape {
  at::ScalarType type = at::kHalf;  // or kBFloat16
  int64_t batch = 0;
  int64_t window = 0;
  int64_t inputs = 0;  // of the first layer
  int64_t hidden = 0;
  int64_t layers = 1;
};

// Why these kernels cannot run a shape on a CUDA device; empty if they can.
std::string lstm_kernels_obstacle(const LstmKernelShape& shape, c10::DeviceIndex device);

// PyTorch's, gates in the order i, f, g, o.
struct LstmLayerWeights {
  at::Tensor weight_ih;  // (4 hidden, inputs), of the shape's type; perhaps padded, see cast()
  at::Tensor weight_hh;  // (4 hidden, hidden), likewise
  at::Tensor bias_ih;    // (4 hidden,), float32
  at::Tensor bias_hh;    // (4 hidden,), float32
};

// What forward leaves. Rows are explained in models/lstm_recurrence.h. Inputs and hidden states of
// all layers lie side by side in one matrix, each layer's 8 rows below those of the layer before,
// so that what a layer multiplies with its weights, its input and its hidden state, is a run of
// columns of the same rows. Views of it, and, if they were asked for, gates and cells, per layer.
struct LstmTape {
  at::Tensor states;               // (rows + 8 layers, inputs rounded up to 8 + layers hidden)
  std::vector<at::Tensor> hidden;  // (rows + 8, hidden): states before each row's step
  at::Tensor last;                 // (batch, hidden): the last layer's after the last step
  std::vector<at::Tensor> gates;
  std::vector<at::Tensor> cells;
};

// Of a layer's weights; float32 and dense.
struct LstmLayerGradients {
  at::Tensor weight_ih;  // (4 hidden, inputs)
  at::Tensor weight_hh;  // (4 hidden, hidden)
  at::Tensor bias_ih;    // (4 hidden,)
  at::Tensor bias_hh;    // (4 hidden,)
};

// A run of `tiles` tiles of a layer.
struct LstmTiles {
  int64_t layer = 0;
  int64_t first = 0;
  int64_t tiles = 0;
};

// Deals the tiles of layers to launches, of which each runs `clusters` tiles at a time. A launch
// takes a multiple of that, so the tiles that are left of a layer go with the next layer's first
// ones; a tile's predecessor in the layer before is always in an earlier launch. A launch has tiles
// of at most two layers, in the order of layers. (Layers of 32 tiles, 30 at a time: three layers
// take four launches of one round, not six rounds.)
std::vector<std::vector<LstmTiles>> lstm_rounds(int64_t layers, int64_t tiles, int64_t clusters);

class LstmKernels {
 public:
  // Throws with the obstacle if there is one.
  LstmKernels(const LstmKernelShape& shape, c10::DeviceIndex device);

  const LstmKernelShape& shape() const { return shape_; }
  int64_t rows() const;
  // Clusters that run at a time, and the tiles that each runs in alternation.
  int64_t forward_clusters() const { return forward_clusters_; }
  int64_t backward_clusters() const { return backward_clusters_; }
  int64_t tiles_together() const { return together_; }

  // From (batch, window, n) in any of float32, fp16 and bfloat16, dense in n, to rows: (rows, n
  // rounded up to 8), of the shape's type.
  at::Tensor to_rows(const at::Tensor& sequence) const;
  // Back: (batch, window, n), of the rows' type; rows may lie apart.
  at::Tensor to_sequence(const at::Tensor& rows, int64_t n) const;
  // View of what a layer of a tape put out: (rows, hidden).
  at::Tensor output_rows(const at::Tensor& hidden) const;

  // Weights for forward and backward from weight_ih, weight_hh, bias_ih, bias_hh of each layer, of
  // any floating type. Beside what follows on the current stream, up to wait_for_cast().
  std::vector<LstmLayerWeights> cast(const std::vector<at::Tensor>& parameters) const;
  void wait_for_cast() const;
  // A tape with the input, as to_rows() takes it. `keep` what backward needs.
  LstmTape begin(const at::Tensor& sequence, bool keep) const;
  // Fills it.
  void forward(LstmTape& tape, const std::vector<LstmLayerWeights>& weights) const;

  struct Incoming {
    std::optional<at::Tensor> rows;  // of all outputs of the last layer: (rows, hidden)
    std::optional<at::Tensor> last;  // of its last step: (batch, hidden)
  };
  // Called with a layer's number once its gradients are enqueued, with the stream current on which
  // they will be ready; that may be another one than backward was called on, which waits for it at
  // the end of backward.
  using LayerDone = std::function<void(int64_t layer)>;

  // Adds to the gradients of each layer, and gives that of the input, (rows, inputs rounded up to
  // 8) of the shape's type, if it is asked for, else undefined.
  at::Tensor backward(const LstmTape& tape, const std::vector<LstmLayerWeights>& weights,
                      const Incoming& incoming, std::vector<LstmLayerGradients>& gradients,
                      bool input_gradient, const LayerDone& done = {}) const;
  // Of all layers.
  std::vector<LstmLayerGradients> zero_gradients() const;

 private:
  std::vector<std::vector<LstmTiles>> rounds(int64_t clusters) const;
  template <typename Job>
  LstmLaunch<Job> launch_of(int64_t clusters) const;
  // All but the two addresses.
  LstmRowsCopy rows_copy(const at::Tensor& sequence, const at::Tensor& rows) const;
  void copy_to_rows(const at::Tensor& sequence, const at::Tensor& rows) const;
  int64_t row_inputs() const;
  int64_t row_of(int64_t tile) const;
  at::TensorOptions options(at::ScalarType type) const;
  at::Tensor padded(const at::Tensor& weight) const;
  // Weights or gradients, whose matrices are of a type.
  template <typename Layer>
  void check_layers(const std::vector<Layer>& layers, const char* what,
                    at::ScalarType matrices) const;

  LstmKernelShape shape_;
  c10::Device device_;
  int64_t together_ = 1;  // tiles that a cluster runs in alternation
  int64_t tiles_ = 0;     // of a layer
  int64_t forward_clusters_ = 0;
  int64_t backward_clusters_ = 0;
  int64_t processors_ = 0;
  c10::cuda::CUDAStream side_;  // for products beside a launch that leaves processors idle
};

}  // namespace longship::models
