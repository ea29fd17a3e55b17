// Copies between sequences, (batch, window, columns) of any floating type, and the rows of tiles
// that the recurrence kernels work on (models/lstm_recurrence.h), which are halves, padded. A block
// copies the 8 rows of a slot, a warp a row. Everything is read and written once; rows past the
// batch, the slot left over and padding columns become zero.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <stdexcept>
#include <string>
#include <type_traits>

#include "models/lstm_recurrence.h"

namespace longship::models {
namespace {

constexpr int kThreads = 32 * kLstmTileRows;

// Of a block and warp.
struct Row {
  int64_t row;
  int64_t sample;
  int64_t step;

  __device__ explicit Row(int64_t window) {
    const int64_t tile = blockIdx.x / (window + 1);
    const int in_tile = static_cast<int>(threadIdx.x) / 32;
    row = int64_t{blockIdx.x} * kLstmTileRows + in_tile;
    sample = tile * kLstmTileRows + in_tile;
    step = blockIdx.x - tile * (window + 1);
  }
};

template <typename Element, typename Half>
__global__ void __launch_bounds__(kThreads) to_rows(LstmRowsCopy copy) {
  using Pair = std::conditional_t<std::is_same_v<Half, __half>, __half2, __nv_bfloat162>;
  const Row at(copy.window);
  const auto* from = static_cast<const Element*>(copy.from) +
                     at.sample * copy.sequence_batch_stride + at.step * copy.sequence_step_stride;
  auto* to = reinterpret_cast<Pair*>(static_cast<Half*>(copy.to) + at.row * copy.row_stride);
  const bool there = at.sample < copy.batch && at.step < copy.window;
  for (int64_t pair = threadIdx.x % 32; pair * 2 < copy.row_columns; pair += 32) {
    float values[2] = {0, 0};
    for (int i = 0; i < 2; ++i) {
      if (there && pair * 2 + i < copy.columns) values[i] = static_cast<float>(from[pair * 2 + i]);
    }
    Pair both;
    both.x = static_cast<Half>(values[0]);
    both.y = static_cast<Half>(values[1]);
    to[pair] = both;
  }
}

template <typename Element, typename Half>
__global__ void __launch_bounds__(kThreads) to_sequence(LstmRowsCopy copy) {
  const Row at(copy.window);
  if (at.sample >= copy.batch || at.step >= copy.window) return;
  const auto* from = static_cast<const Half*>(copy.from) + at.row * copy.row_stride;
  auto* to = static_cast<Element*>(copy.to) + at.sample * copy.sequence_batch_stride +
             at.step * copy.sequence_step_stride;
  for (int64_t column = threadIdx.x % 32; column < copy.columns; column += 32) {
    to[column] = static_cast<Element>(static_cast<float>(from[column]));
  }
}

template <typename Element, typename Half>
struct ToRows {
  static constexpr auto kernel = to_rows<Element, Half>;
};
template <typename Element, typename Half>
struct ToSequence {
  static constexpr auto kernel = to_sequence<Element, Half>;
};

template <template <typename, typename> typename Copy>
void launch(const LstmRowsCopy& copy, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(copy.tiles * (copy.window + 1));
  const auto with = [&]<typename Element>(Element) {
    const auto kernel =
        copy.bfloat16 ? Copy<Element, __nv_bfloat16>::kernel : Copy<Element, __half>::kernel;
    kernel<<<blocks, kThreads, 0, stream>>>(copy);
  };
  switch (copy.sequence_type) {
    case LstmElement::kFloat:
      with(float{});
      break;
    case LstmElement::kHalf:
      with(__half{});
      break;
    case LstmElement::kBfloat16:
      with(__nv_bfloat16{});
      break;
  }
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) {
    throw std::runtime_error(std::string("rows of an LSTM cannot be copied: ") +
                             cudaGetErrorString(error));
  }
}

}  // namespace

void lstm_sequence_to_rows(const LstmRowsCopy& copy, cudaStream_t stream) {
  launch<ToRows>(copy, stream);
}

void lstm_rows_to_sequence(const LstmRowsCopy& copy, cudaStream_t stream) {
  launch<ToSequence>(copy, stream);
}

}  // namespace longship::models
