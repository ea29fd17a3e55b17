// Layer normalisation of FP32 rows, forward and backward. With x^ = (x - mean) rstd and
// d = dy gamma,
//
//   y = x^ gamma + beta
//   dx = rstd (d - mean(d) - x^ mean(d x^)),   dgamma = sum(dy x^),   dbeta = sum(dy)
//
// A warp takes a row at a time and keeps it in registers; lane l has columns 4 (l + 32 v) to
// 4 (l + 32 v) + 3. Backward's warps take every so manieth row, sum their shares of dgamma and
// dbeta as they go, and a block's warps add up theirs in shared memory one after the other, so that
// the order of all sums is fixed.

#include <stdexcept>
#include <string>
#include <type_traits>

#include "models/row_sums.h"

namespace longship::models {
namespace {

constexpr int kWarps = 8;
constexpr int kVector = 4;
constexpr int kColumnsOfVector = 32 * kVector;  // of a warp

__device__ float warp_sum(float value) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(~0U, value, offset);
  return value;
}

template <int kVectors>
struct Row {
  float4 of[kVectors];

  // Zeros past the columns.
  __device__ void load(const float* row, int lane, int64_t columns) {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const int column = kVector * (lane + 32 * v);
      of[v] = column < columns ? *reinterpret_cast<const float4*>(row + column) : float4{};
    }
  }
  __device__ void store(float* row, int lane, int64_t columns) const {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const int column = kVector * (lane + 32 * v);
      if (column < columns) *reinterpret_cast<float4*>(row + column) = of[v];
    }
  }
};

__device__ float sum_of(const float4& a) {
  return (a.x + a.y) + (a.z + a.w);
}
__device__ float dot(const float4& a, const float4& b) {
  return fmaf(a.x, b.x, a.y * b.y) + fmaf(a.z, b.z, a.w * b.w);
}
// f of each of the four, with those of others.
template <typename F>
__device__ float4 each(const float4& a, const float4& b, F f) {
  return {f(a.x, b.x), f(a.y, b.y), f(a.z, b.z), f(a.w, b.w)};
}

template <int kVectors>
__global__ void __launch_bounds__(32 * kWarps) layer_norm(LayerNormForward n) {
  const auto lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t row = int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
  if (row >= n.rows) return;
  const auto columns = static_cast<float>(n.columns);
  Row<kVectors> x;
  x.load(n.x + row * n.columns, lane, n.columns);
  float sum = 0;
#pragma unroll
  for (int v = 0; v < kVectors; ++v) sum += sum_of(x.of[v]);
  const float mean = warp_sum(sum) / columns;
  float squares = 0;
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    if (kVector * (lane + 32 * v) < n.columns) {
      const float4 d = each(x.of[v], x.of[v], [mean](float a, float) { return a - mean; });
      squares += dot(d, d);
    }
  }
  const float rstd = rsqrtf(warp_sum(squares) / columns + n.eps);
  Row<kVectors> gamma;
  Row<kVectors> beta;
  gamma.load(n.gamma, lane, n.columns);
  beta.load(n.beta, lane, n.columns);
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const float4 scaled = each(x.of[v], gamma.of[v],
                               [mean, rstd](float a, float b) { return (a - mean) * rstd * b; });
    x.of[v] = each(scaled, beta.of[v], [](float a, float b) { return a + b; });
  }
  x.store(n.y + row * n.columns, lane, n.columns);
  if (lane == 0) {
    n.mean[row] = mean;
    n.rstd[row] = rstd;
  }
}

template <int kVectors>
__global__ void __launch_bounds__(32 * kWarps) layer_norm_backward(LayerNormBackward n) {
  __shared__ float4 sums[2][32 * kVectors];
  const auto lane = static_cast<int>(threadIdx.x) % 32;
  const auto warp = static_cast<int>(threadIdx.x) / 32;
  const auto columns = static_cast<float>(n.columns);
  Row<kVectors> gamma;
  gamma.load(n.gamma, lane, n.columns);
  Row<kVectors> of_gamma{};
  Row<kVectors> of_beta{};
  const int64_t stride = int64_t{gridDim.x} * kWarps;
  for (int64_t row = int64_t{blockIdx.x} * kWarps + warp; row < n.rows; row += stride) {
    const float mean = n.mean[row];
    const float rstd = n.rstd[row];
    Row<kVectors> x;
    Row<kVectors> dy;
    x.load(n.x + row * n.columns, lane, n.columns);
    dy.load(n.dy + row * n.columns, lane, n.columns);
    float sum = 0;
    float product = 0;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      // Past the columns dy is zero, and so is all that follows from it.
      x.of[v] = each(x.of[v], x.of[v], [mean, rstd](float a, float) { return (a - mean) * rstd; });
      of_beta.of[v] = each(of_beta.of[v], dy.of[v], [](float a, float b) { return a + b; });
      const float4 scaled = each(dy.of[v], x.of[v], [](float a, float b) { return a * b; });
      of_gamma.of[v] = each(of_gamma.of[v], scaled, [](float a, float b) { return a + b; });
      dy.of[v] = each(dy.of[v], gamma.of[v], [](float a, float b) { return a * b; });
      sum += sum_of(dy.of[v]);
      product += dot(dy.of[v], x.of[v]);
    }
    const float mean_d = warp_sum(sum) / columns;
    const float mean_dx = warp_sum(product) / columns;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      dy.of[v] = each(dy.of[v], x.of[v], [mean_d, mean_dx, rstd](float d, float hat) {
        return rstd * (d - mean_d - hat * mean_dx);
      });
    }
    dy.store(n.dx + row * n.columns, lane, n.columns);
  }
  for (int turn = 0; turn < kWarps; ++turn) {
    if (warp == turn) {
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
        const auto add = [](float a, float b) { return a + b; };
        float4& gamma_sum = sums[0][lane + 32 * v];
        float4& beta_sum = sums[1][lane + 32 * v];
        gamma_sum = turn == 0 ? of_gamma.of[v] : each(gamma_sum, of_gamma.of[v], add);
        beta_sum = turn == 0 ? of_beta.of[v] : each(beta_sum, of_beta.of[v], add);
      }
    }
    __syncthreads();
  }
  for (auto i = static_cast<int>(threadIdx.x); i < 2 * 32 * kVectors; i += 32 * kWarps) {
    const int which = i / (32 * kVectors);
    const int column = kVector * (i % (32 * kVectors));
    if (column >= n.columns) continue;
    float* to = n.partial + (2 * int64_t{blockIdx.x} + which) * n.columns + column;
    *reinterpret_cast<float4*>(to) = sums[which][i % (32 * kVectors)];
  }
}

// Calls `with` with the number of vectors of a lane as a constant.
template <typename F>
void with_vectors(int64_t columns, F with) {
  if (columns <= kColumnsOfVector) {
    with(std::integral_constant<int, 1>{});
  } else if (columns <= 2 * kColumnsOfVector) {
    with(std::integral_constant<int, 2>{});
  } else if (columns <= 4 * kColumnsOfVector) {
    with(std::integral_constant<int, 4>{});
  } else {
    with(std::integral_constant<int, 8>{});
  }
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) {
    throw std::runtime_error(std::string("layer_norm cannot be launched: ") +
                             cudaGetErrorString(error));
  }
}
static_assert(kMostNormalizedColumns == 8 * kColumnsOfVector);

}  // namespace

void layer_norm_cuda(const LayerNormForward& norm, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>((norm.rows + kWarps - 1) / kWarps);
  with_vectors(norm.columns, [&](auto vectors) {
    layer_norm<vectors()><<<blocks, 32 * kWarps, 0, stream>>>(norm);
  });
}

void layer_norm_backward_cuda(const LayerNormBackward& norm, cudaStream_t stream) {
  with_vectors(norm.columns, [&](auto vectors) {
    layer_norm_backward<vectors()>
        <<<static_cast<unsigned>(norm.blocks), 32 * kWarps, 0, stream>>>(norm);
  });
}

}  // namespace longship::models
