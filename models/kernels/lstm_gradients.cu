// Adds the gradients of an LSTM layer's weights to where they belong. A warp has a row: a gate's
// unit. The columns of both matrices lie side by side in one product; the biases, of which both
// have the same gradient, get the shares that the backward recurrence left, summed in a fixed
// order.

#include <cstdint>
#include <stdexcept>
#include <string>

#include "models/lstm_recurrence.h"

namespace longship::models {
namespace {

constexpr int kWarps = 4;
constexpr int64_t kGates = 4;

// By fours where both lie so.
__device__ void add_row(float* to, const float* from, int64_t columns, int lane) {
  if (columns % 4 == 0 && reinterpret_cast<uintptr_t>(to) % sizeof(float4) == 0) {
    for (int64_t i = 4 * lane; i < columns; i += 4 * 32) {
      float4 sum = *reinterpret_cast<const float4*>(to + i);
      const float4 more = *reinterpret_cast<const float4*>(from + i);
      sum.x += more.x;
      sum.y += more.y;
      sum.z += more.z;
      sum.w += more.w;
      *reinterpret_cast<float4*>(to + i) = sum;
    }
    return;
  }
  for (int64_t i = lane; i < columns; i += 32) to[i] += from[i];
}

__global__ void __launch_bounds__(32 * kWarps) add_gradients(LstmGradientSum s) {
  const auto lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t rows = kGates * s.hidden;
  const int64_t row = int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
  if (row >= rows) return;
  float bias = 0;
  for (int64_t i = lane; i < s.count; i += 32) bias += s.bias_shares[i * rows + row];
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) bias += __shfl_xor_sync(~0U, bias, offset);
  if (lane == 0) {
    s.bias_ih[row] += bias;
    s.bias_hh[row] += bias;
  }
  const float* product = s.product + row * (s.row_inputs + s.hidden);
  add_row(s.weight_ih + row * s.inputs, product, s.inputs, lane);
  add_row(s.weight_hh + row * s.hidden, product + s.row_inputs, s.hidden, lane);
}

}  // namespace

void add_lstm_gradients(const LstmGradientSum& sum, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(kGates * sum.hidden / kWarps);
  add_gradients<<<blocks, 32 * kWarps, 0, stream>>>(sum);
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) {
    throw std::runtime_error(std::string("an LSTM's gradients cannot be added: ") +
                             cudaGetErrorString(error));
  }
}

}  // namespace longship::models
