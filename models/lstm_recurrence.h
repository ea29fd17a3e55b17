#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace longship::models {

// The recurrences of LSTM layers as launches over raw memory; models/lstm_kernels.h is what models
// use. Tensors of fp16 or bfloat16 ("half" below) are rows of tiles: a tile is 8 samples over the
// whole window, and row
//
//   (tile * (window + 1) + slot) * 8 + sample
//
// belongs to one sample at one slot. Of inputs, projections, outputs' gradients and gates'
// gradients slot t is step t, and slot `window` is left over; of hidden states slot 0 is the
// initial state (zero) and slot t + 1 the state after step t, and 8 rows of zeros follow the last
// tile. So
//
//   hidden states, all rows                 are the recurrent input of row r,
//   hidden states from the eighth row on    are the output of row r,
//
// and each matrix product over a range of tiles (projection, gradients of inputs and weights) is
// one product of two matrices without gaps. Samples past the batch are zero in inputs and in
// gradients of outputs, which makes every gradient of theirs zero.

constexpr int kLstmTileRows = 8;
constexpr int kLstmCtaHidden = 64;  // hidden units of a CTA: a cluster has hidden / 64 of them
constexpr int kLstmMostCtas = 4;
constexpr int kLstmMostJobs = 2;

constexpr int kLstmLeastPairedHidden = 192;

// Which variant of a kernel. Clusters of hidden / 64 thread blocks run one tile at a time, or, for
// hidden sizes from kLstmLeastPairedHidden on, two in alternation, which takes longer than one and
// less than one after the other. (Of the smaller ones several clusters share processors.)
struct LstmKernelKind {
  int hidden = 0;         // 64, 128, 192 or 256
  bool bfloat16 = false;  // else fp16
  int tiles = 1;          // that a cluster runs at a time; all numbers of tiles are multiples of it
};

// What a launch does for one layer: `tiles` tiles from `first_tile` on. Pointers are to the first
// tile's rows of the whole tensor.
struct LstmForwardJob {
  // (rows, 4 hidden): weight_ih x, gates i, f, g, o; fp16, or float32 where halves are bfloat16.
  const void* projection = nullptr;
  const void* weight_hh = nullptr;  // (4 hidden, hidden) half
  const float* bias_ih = nullptr;   // (4 hidden,)
  const float* bias_hh = nullptr;   // (4 hidden,)
  void* hidden = nullptr;           // (rows + 8, hidden) half, written
  int64_t hidden_stride = 0;        // elements between its rows; a multiple of 8
  void* last = nullptr;             // (8 tiles, hidden) half, written: after the last step; or null
  void* gates = nullptr;            // (tiles, window, 32 hidden) fp16, written; or null
  float* cells = nullptr;           // (tiles, window, 8 hidden), written; or null
  int64_t first_tile = 0;
  int64_t tiles = 0;
};

struct LstmBackwardJob {
  const void* output_gradient = nullptr;  // (rows, hidden) half; or null
  const void* last_gradient = nullptr;  // (batch, hidden) half, of the last step's output; or null
  const void* weight_hh = nullptr;      // (4 hidden, hidden) half
  const void* gates = nullptr;          // as forward wrote them
  const float* cells = nullptr;         // as forward wrote them
  void* gate_gradient = nullptr;        // (rows, 4 hidden) half, written
  float* bias_gradient = nullptr;       // (tiles, 4 hidden), written: each tile's share
  int64_t first_tile = 0;
  int64_t tiles = 0;
};

// One launch. Its clusters take the tiles of all its jobs in turn; tiles know nothing of each
// other.
template <typename Job>
struct LstmLaunch {
  Job jobs[kLstmMostJobs];  // NOLINT: std::array is not for device code
  int64_t batch = 0;
  int window = 0;
  int64_t layer_tiles = 0;  // of a whole layer
  LstmKernelKind kernel;
  int clusters = 0;  // at most
};

void launch_lstm_forward(const LstmLaunch<LstmForwardJob>& launch, cudaStream_t stream);
void launch_lstm_backward(const LstmLaunch<LstmBackwardJob>& launch, cudaStream_t stream);

// How many clusters of a launch the current device runs at a time when nothing else runs there.
int resident_lstm_forward_clusters(const LstmKernelKind& kind);
int resident_lstm_backward_clusters(const LstmKernelKind& kind);

// Adds the gradients of a layer's weights, as they come of products, to where they belong.
struct LstmGradientSum {
  // (4 hidden, row_inputs + hidden): of weight_ih with columns of padding, then of weight_hh.
  const float* product = nullptr;
  const float* bias_shares = nullptr;  // (count, 4 hidden), as LstmBackwardJob::bias_gradient
  int64_t count = 0;
  int64_t inputs = 0;
  int64_t row_inputs = 0;  // a multiple of 8, as hidden is
  int64_t hidden = 0;
  float* weight_ih = nullptr;  // (4 hidden, inputs), added to
  float* weight_hh = nullptr;  // (4 hidden, hidden), added to
  float* bias_ih = nullptr;    // (4 hidden,), added to
  float* bias_hh = nullptr;    // (4 hidden,), added to
};
void add_lstm_gradients(const LstmGradientSum& sum, cudaStream_t stream);

// Casts float32 matrices to halves, with columns of zeros behind each row.
struct LstmCast {
  const float* from = nullptr;  // (rows, columns)
  void* to = nullptr;           // (rows, to_columns)
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t to_columns = 0;
};
constexpr int kLstmMostCasts = 16;  // of a launch
struct LstmCasts {
  LstmCast matrices[kLstmMostCasts];  // NOLINT: std::array is not for device code
  int count = 0;
};
void cast_lstm_weights(const LstmCasts& casts, bool bfloat16, cudaStream_t stream);

// Copies between (batch, window, columns) and rows of tiles, of which columns are padded with
// zeros.
enum class LstmElement { kFloat, kHalf, kBfloat16 };

struct LstmRowsCopy {
  const void* from = nullptr;
  void* to = nullptr;
  LstmElement sequence_type = LstmElement::kFloat;
  bool bfloat16 = false;  // rows are, else fp16
  int64_t sequence_batch_stride = 0;
  int64_t sequence_step_stride = 0;
  int64_t batch = 0;
  int64_t tiles = 0;
  int64_t window = 0;
  int64_t columns = 0;      // of the sequence
  int64_t row_columns = 0;  // at least as many, even
  int64_t row_stride = 0;   // elements between rows, even
};

void lstm_sequence_to_rows(const LstmRowsCopy& copy, cudaStream_t stream);
void lstm_rows_to_sequence(const LstmRowsCopy& copy, cudaStream_t stream);

}  // namespace longship::models
