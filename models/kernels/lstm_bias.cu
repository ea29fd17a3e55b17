// The gradients of an LSTM layer's biases, of which both have the same: the shares that the
// backward recurrence left, summed in their order and added to each. A thread has a column.

#include <stdexcept>
#include <string>

#include "models/lstm_recurrence.h"

namespace longship::models {
namespace {

constexpr int kThreads = 64;

__global__ void __launch_bounds__(kThreads) add_bias_gradients(LstmBiasSum s) {
  const int64_t column = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (column >= s.columns) return;
  const float* share = s.shares + column;
  float sum = 0;
#pragma unroll 8
  for (int64_t i = 0; i < s.count; ++i) sum += share[i * s.columns];
  s.bias_ih[column] += sum;
  s.bias_hh[column] += sum;
}

}  // namespace

void add_lstm_bias_gradients(const LstmBiasSum& sum, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>((sum.columns + kThreads - 1) / kThreads);
  add_bias_gradients<<<blocks, kThreads, 0, stream>>>(sum);
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) {
    throw std::runtime_error(std::string("gradients of biases cannot be summed: ") +
                             cudaGetErrorString(error));
  }
}

}  // namespace longship::models
