// The backward recurrence of LSTM layers: from the gradients of the outputs, and what forward
// saved, to the gradients of the gates before their non-linearities, and of the biases. Gradients
// of the weights and of the inputs are matrix products of what comes out.
//
// Algorithm. From the last step to the first, with dh and dc zero at first and R as in forward:
//
//   dh += gradient of the output
//   do = dh tanh(c) o (1 - o)
//   dc += dh o (1 - tanh(c)^2)
//   di = dc g i (1 - i);  df = dc c_before f (1 - f);  dg = dc i (1 - g^2)
//   dc = dc f;            dh = R^T (di, df, dg, do)
//
// di, df, dg and do are rounded to halves, once, for this product and for all later ones; their
// sums over steps and samples, the gradients of the biases, are of the FP32 values.
//
// Tiling. A CTA computes the gates' gradients of its own 64 units: 256 of the 4 hidden columns of
// R^T. It holds these columns in registers over all steps, multiplies them with its own gradients,
// and so has a share of dh of every unit, of which it sends each CTA that one's. Shares are FP32
// and are added in one order, so repeats agree to the bit. The rows of R^T, in 16s, are dealt to
// the 8 warps; where they are no multiple of 8 (hidden 64 and 192) two warps share rows and take
// half of the columns each.
//
// With kTiles = 2 a cluster runs two tiles in alternation, as in forward.
//
// Synchronisation. Gradients of the gates go through shared memory, with one __syncthreads for each
// tile and step, and two buffers. A single tile uses them in turn: what step n writes is read
// (product; copy to global memory) after its __syncthreads, and overwritten in step n + 2, after
// that of step n + 1. Two tiles have one each: the other tile's __syncthreads lies between the
// reads and the next step's writes. Shares of dh go by Note [Exchange]. Gates, cells and gradients
// of outputs come by Note [Input ring]; every lane copies what it reads itself, so a thread waits
// for its own copies only.

#include "models/kernels/lstm_cluster.cuh"

namespace longship::models {
namespace lstm {

// Of shared memory, and of work, in a cluster of kCtas.
template <int kCtas, int kTiles>
struct BackwardLayout {
  static constexpr int kHidden = kLstmCtaHidden * kCtas;
  static constexpr int kColumns = kGates * kLstmCtaHidden;  // of R^T, in a CTA
  // How warps share R^T: columns in kSplits parts, rows in strips of 16, kStrips a warp.
  static constexpr int kSplits = kCtas % 2 == 0 ? 1 : 2;
  static constexpr int kStrips = kCtas * kSplits / 2;
  static constexpr int kSteps = kColumns / kSplits / 16;  // of 16 columns

  static constexpr uint32_t kSampleStride = 2 * kColumns + 16;
  static constexpr uint32_t kGradientBytes = kLstmTileRows * kSampleStride;
  static constexpr int kShares = kCtas * kSplits;  // of dh, that a unit gets
  static constexpr uint32_t kShareBytes = kThreads * sizeof(float2);
  static constexpr uint32_t kExchangeBytes = kShares * kShareBytes;
  // A stage: gates, cells and gradients of outputs of each thread.
  static constexpr uint32_t kCells = kThreads * sizeof(uint4);
  static constexpr uint32_t kOutputs = kCells + kThreads * sizeof(float2);
  static constexpr uint32_t kTileBytes = kOutputs + kThreads * sizeof(uint32_t);
  static constexpr uint32_t kStageBytes = kTiles * kTileBytes;

  static constexpr uint32_t kExchanged = 0;  // barriers of two exchanges of each tile
  static constexpr uint32_t kGradients = 128;
  static constexpr uint32_t kDh = kGradients + 2 * kGradientBytes;
  static constexpr uint32_t kRing = kDh + 2 * kTiles * kExchangeBytes;
  // Weights on their way to registers: of a part of a warp's columns of R^T, its rows.
  static constexpr int kWeightParts = kSteps % 2 == 0 ? 2 : 1;
  static constexpr int kPartColumns = 16 * kSteps / kWeightParts;
  static constexpr uint32_t kWeightStride = kStrips * 32 + 16;
  static constexpr uint32_t kWeightBytes = kPartColumns * kWeightStride;  // of a warp
  static constexpr uint32_t kWeights = kRing + kStages * kStageBytes;
  static constexpr uint32_t kBytes = kWeights + kWarps * kWeightBytes;
};

}  // namespace lstm

namespace {

using namespace lstm;    // NOLINT(google-build-using-namespace)
using namespace hopper;  // NOLINT(google-build-using-namespace)

// What dh and dc of a step are multiplied with, for one unit and sample, and the output's share of
// dh.
struct Factors {
  float i, f, g, o;    // of dc, dc, dc and dh, for the gates' gradients
  float cell, forget;  // of dh, for dc; of dc, for the step before
  float dh;

  __device__ Factors(float in, float forgotten, float input, float out, float now, float before)
      : i(input * in * (1 - in)),
        f(before * forgotten * (1 - forgotten)),
        g(in * (1 - input * input)),
        forget(forgotten) {
    const float th = tanh_fast(now);
    o = th * out * (1 - out);
    cell = out * (1 - th * th);
  }
};
struct Pair {
  Factors of[2];
};

// A warp's part of R^T, whose columns lie as rows of R from `columns` on, by way of its part of
// shared memory, as in forward.
template <typename Half, typename Layout>
__device__ __forceinline__ void load_weights(
    uint32_t (&weights)[Layout::kStrips][Layout::kSteps][4], const Half* columns, uint32_t shared,
    int lane) {
  constexpr int kPieces = Layout::kStrips * 2;  // 16 bytes, of a column
  constexpr int kSteps = Layout::kSteps / Layout::kWeightParts;
  const uint32_t mine =
      shared + (lane / 16 * 8 + lane % 8) * Layout::kWeightStride + lane / 8 % 2 * 16;
#pragma unroll
  for (int part = 0; part < Layout::kWeightParts; ++part) {
    __syncwarp();
#pragma unroll 1
    for (int i = lane; i < Layout::kPartColumns * kPieces; i += 32) {
      const int in_part = i / kPieces;
      const int column = part * Layout::kPartColumns + in_part;
      const int row = column / kLstmCtaHidden * Layout::kHidden + column % kLstmCtaHidden;
      copy_async<16>(shared + in_part * Layout::kWeightStride + i % kPieces * 16,
                     columns + row * Layout::kHidden + i % kPieces * 8);
    }
    end_copy_group();
    wait_copy_groups<0>();
    __syncwarp();
#pragma unroll
    for (int strip = 0; strip < Layout::kStrips; ++strip) {
#pragma unroll
      for (int k = 0; k < kSteps; ++k) {
        load_matrices_turned(weights[strip][part * kSteps + k],
                             mine + 16 * k * Layout::kWeightStride + strip * 32);
      }
    }
  }
}

template <typename Half, int kCtas, int kTiles>
__device__ __forceinline__ void run_backward(const LstmLaunch<LstmBackwardJob>& launch) {
  using L = BackwardLayout<kCtas, kTiles>;
  constexpr int kHidden = L::kHidden;
  constexpr int kSlotHidden = kLstmTileRows * kHidden;  // of a slot's hidden states
  extern __shared__ __align__(128) unsigned char shared[];
  const uint32_t base = shared_address(shared);
  const auto thread = static_cast<int>(threadIdx.x);
  // Uniform over the warp, which the compiler would not know.
  const int warp = __shfl_sync(~0U, thread / 32, 0);
  const int lane = thread % 32;
  const int g = lane / 4;
  const int q = lane % 4;
  const auto rank = static_cast<int>(cluster_rank());
  const int cluster = static_cast<int>(blockIdx.x) / kCtas;
  const int clusters = static_cast<int>(gridDim.x) / kCtas;
  const int items = items_of(launch);
  const int window = launch.window;
  const int64_t slots = window + 1;
  // Between the two tiles of an item.
  const int64_t next_slots = slots * kSlotHidden;
  const int64_t next_saved = int64_t{window} * kCtas * kThreads;

  if (thread == 0) {
    for (uint32_t i = 0; i < 2 * kTiles; ++i) init_barrier(base + L::kExchanged + 8 * i, 1);
    publish_barriers();
    for (uint32_t i = 0; i < 2 * kTiles; ++i) {
      expect_bytes(base + L::kExchanged + 8 * i, L::kExchangeBytes);
    }
  }
  cluster_sync();

  // Copies what the step three ahead reads, each thread for itself. A group even if there is none.
  Cursor ahead{cluster};
  const uint4* ahead_gates = nullptr;
  const float2* ahead_cells = nullptr;
  const Half* ahead_outputs = nullptr;
  uint32_t filled = 0;
  const auto fill = [&]() {
    if (ahead.item < items) {
      if (ahead.step == 0) {
        const Place place = place_of(launch, ahead.item);
        const LstmBackwardJob& job = launch.jobs[place.job];
        const int64_t saved =
            ((place.tile * window + window - 1) * kCtas + rank) * kThreads + thread;
        ahead_gates = static_cast<const uint4*>(job.gates) + saved;
        ahead_cells = reinterpret_cast<const float2*>(job.cells) + saved - kCtas * kThreads;
        ahead_outputs = static_cast<const Half*>(job.output_gradient);
        if (ahead_outputs != nullptr) {
          const int64_t row = (place.tile * slots + window - 1) * kLstmTileRows + g;
          ahead_outputs += row * kHidden + rank * kLstmCtaHidden + warp * 8 + 2 * q;
        }
      }
#pragma unroll
      for (int u = 0; u < kTiles; ++u) {
        const uint32_t stage =
            base + L::kRing + filled % kStages * L::kStageBytes + u * L::kTileBytes;
        copy_async<16>(stage + thread * sizeof(uint4), ahead_gates + u * next_saved);
        if (ahead.step < window - 1) {
          copy_async<8>(stage + L::kCells + thread * sizeof(float2), ahead_cells + u * next_saved);
        }
        if (ahead_outputs != nullptr) {
          copy_async<4>(stage + L::kOutputs + thread * sizeof(uint32_t),
                        ahead_outputs + u * next_slots);
        }
      }
      ahead_gates -= kCtas * kThreads;
      ahead_cells -= kCtas * kThreads;
      if (ahead_outputs != nullptr) ahead_outputs -= kSlotHidden;
      ahead.advance(window, clusters);
      ++filled;
    }
    end_copy_group();
  };
  for (int i = 0; i < kAhead; ++i) fill();

  // The warp's part of R^T: rows from first_row on, columns from first_column on.
  const int first_row = warp / L::kSplits * L::kStrips * 16;
  const int first_column = warp % L::kSplits * (L::kColumns / L::kSplits);
  const int share = rank * L::kSplits + warp % L::kSplits;
  uint32_t send_dh[L::kStrips];
  uint32_t send_barrier[L::kStrips];
#pragma unroll
  for (int strip = 0; strip < L::kStrips; ++strip) {
    const int row = first_row + 16 * strip;
    const auto to = static_cast<uint32_t>(row / kLstmCtaHidden);
    send_dh[strip] = in_cta(base + L::kDh, to) + share * L::kShareBytes +
                     (row % kLstmCtaHidden / 8 * 32 + lane) * sizeof(float2);
    send_barrier[strip] = in_cta(base + L::kExchanged, to);
  }
  const uint32_t write_gradient = base + L::kGradients + lane % 8 * L::kSampleStride +
                                  (lane / 8 * kLstmCtaHidden + warp * 8) * 2;
  const uint32_t multiply_gradient =
      base + L::kGradients + lane % 8 * L::kSampleStride + (lane / 8 * 8 + first_column) * 2;
  const uint32_t copy_gradient = base + L::kGradients + warp * L::kSampleStride + lane * 16;

  uint32_t weights[L::kStrips][L::kSteps][4];
  int loaded = -1;
  uint32_t n = 0;     // steps
  uint32_t sent = 0;  // exchanges of each tile
  for (int item = cluster; item < items; item += clusters) {
    const Place place = place_of(launch, item);
    const LstmBackwardJob& job = launch.jobs[place.job];
    if (place.job != loaded) {
      loaded = place.job;
      load_weights<Half, L>(
          weights,
          static_cast<const Half*>(job.weight_hh) +
              (first_column / kLstmCtaHidden * kHidden + rank * kLstmCtaHidden) * kHidden +
              first_row,
          base + L::kWeights + warp * L::kWeightBytes, lane);
    }

    // The thread's place in a row of all gates: sample `warp`, 16 bytes.
    constexpr int kPieces = kRowBytes / 16;
    Half* write_gates =
        static_cast<Half*>(job.gate_gradient) +
        ((place.tile * slots + window) * kLstmTileRows + warp) * (kGates * kHidden) +
        lane / kPieces * kHidden + rank * kLstmCtaHidden + lane % kPieces * 8;
    float bias[kGates] = {0, 0, 0, 0};
    float dc[kTiles][2] = {};
    float c[kTiles][2];
#pragma unroll
    for (int u = 0; u < kTiles; ++u) {
      // The slot left over.
      *reinterpret_cast<uint4*>(write_gates + u * kGates * next_slots) = uint4{};
      const float2 last = reinterpret_cast<const float2*>(
          job.cells)[((place.tile * window + window - 1) * kCtas + rank) * kThreads + thread +
                     u * next_saved];
      c[u][0] = last.x;
      c[u][1] = last.y;
    }
    // What step m has of tile u before the later step's dh is known; c becomes that of the step
    // before.
    const bool outputs = job.output_gradient != nullptr;
    const auto before_exchange = [&](int u, uint32_t m, bool first) {
      const uint32_t stage = base + L::kRing + m % kStages * L::kStageBytes + u * L::kTileBytes;
      const uint4 saved = load_shared_16(stage + thread * sizeof(uint4));
      const float2 earlier = load_shared_8(stage + L::kCells + thread * sizeof(float2));
      const uint32_t output = load_shared_4(stage + L::kOutputs + thread * sizeof(uint32_t));
      const float2 of_output = unpack<Half>(turned(outputs ? output : 0));
      const float2 i = unpack<__half>(saved.x);
      const float2 f = unpack<__half>(saved.y);
      const float2 cell = unpack<__half>(saved.z);
      const float2 o = unpack<__half>(saved.w);
      Pair pair{{Factors(i.x, f.x, cell.x, o.x, c[u][0], first ? 0 : earlier.x),
                 Factors(i.y, f.y, cell.y, o.y, c[u][1], first ? 0 : earlier.y)}};
      pair.of[0].dh = of_output.x;
      pair.of[1].dh = of_output.y;
      c[u][0] = earlier.x;
      c[u][1] = earlier.y;
      return pair;
    };
    wait_copy_groups<kAhead - 1>();
    Pair next = before_exchange(0, n, window == 1);
    for (int step = 0; step < window; ++step, ++n) {
      write_gates -= kGates * kSlotHidden;
      const bool sends = step + 1 < window;
#pragma unroll
      for (int u = 0; u < kTiles; ++u) {
        const Pair now = next;
        float dh[2] = {now.of[0].dh, now.of[1].dh};
        if (step == 0 && job.last_gradient != nullptr) {
          const int64_t sample = (place.tile + u) * kLstmTileRows + g;
          uint32_t word = 0;
          if (sample < launch.batch) {
            word = *reinterpret_cast<const uint32_t*>(static_cast<const Half*>(job.last_gradient) +
                                                      sample * kHidden + rank * kLstmCtaHidden +
                                                      warp * 8 + 2 * q);
          }
          const float2 v = unpack<Half>(turned(word));
          dh[0] += v.x;
          dh[1] += v.y;
        }
        const uint32_t exchanged = base + L::kExchanged + 16 * u;
        if (step > 0) {
          const uint32_t last = sent - 1;
          wait_barrier(exchanged + 8 * (last % 2), last / 2 % 2);
          const uint32_t shares =
              base + L::kDh + (2 * u + last % 2) * L::kExchangeBytes + thread * sizeof(float2);
          float2 v[L::kShares];
#pragma unroll
          for (int s = 0; s < L::kShares; ++s) v[s] = load_shared_8(shares + s * L::kShareBytes);
            // In a tree, which is shorter than a chain.
#pragma unroll
          for (int span = 1; span < L::kShares; span *= 2) {
#pragma unroll
            for (int s = 0; s + span < L::kShares; s += 2 * span) {
              v[s].x += v[s + span].x;
              v[s].y += v[s + span].y;
            }
          }
          dh[0] += v[0].x;
          dh[1] += v[0].y;
        }
        float d[kGates][2];
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const Factors& k = now.of[e];
          const float dcell = fmaf(dh[e], k.cell, dc[u][e]);
          d[0][e] = dcell * k.i;
          d[1][e] = dcell * k.f;
          d[2][e] = dcell * k.g;
          d[3][e] = dh[e] * k.o;
          dc[u][e] = dcell * k.forget;
        }
        const uint32_t buffer = (kTiles == 1 ? n % 2 : u) * L::kGradientBytes;
        const uint32_t packed[kGates] = {pack<Half>(d[0][0], d[0][1]), pack<Half>(d[1][0], d[1][1]),
                                         pack<Half>(d[2][0], d[2][1]),
                                         pack<Half>(d[3][0], d[3][1])};
        store_matrices_turned(write_gradient + buffer, packed);
        // Exchange sent - 1 has been waited for, and sent + 1 is the next of its barrier.
        if (step > 0 && thread == 0) {
          expect_bytes(exchanged + 8 * ((sent + 1) % 2), L::kExchangeBytes);
        }
        __syncthreads();

        // Of two tiles, the other's next factors are computed while this one's product is; both in
        // one stretch without branches, so the last step has a product that is not sent.
        if constexpr (kTiles == 2) {
          if (u == 1) wait_copy_groups<kAhead - 2>();
          next = before_exchange(1 - u, n + u, u == 0 ? !sends : step + 2 == window);
        }
        float sum[L::kStrips][2][4] = {};
#pragma unroll
        for (int pair = 0; pair < L::kSteps / 2; ++pair) {
          uint32_t b[4];
          load_matrices(b, multiply_gradient + buffer + pair * 64);
#pragma unroll
          for (int strip = 0; strip < L::kStrips; ++strip) {
            multiply_add<Half>(sum[strip][pair % 2], weights[strip][2 * pair], b[0], b[1]);
          }
#pragma unroll
          for (int strip = 0; strip < L::kStrips; ++strip) {
            multiply_add<Half>(sum[strip][pair % 2], weights[strip][2 * pair + 1], b[2], b[3]);
          }
        }
        if (sends) {
          const uint32_t to = (2 * u + sent % 2) * L::kExchangeBytes;
          const uint32_t counted = 16 * u + 8 * (sent % 2);
#pragma unroll
          for (int strip = 0; strip < L::kStrips; ++strip) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
              store_async(send_dh[strip] + to + half * 32 * sizeof(float2),
                          sum[strip][0][2 * half] + sum[strip][1][2 * half],
                          sum[strip][0][2 * half + 1] + sum[strip][1][2 * half + 1],
                          send_barrier[strip] + counted);
            }
          }
        }
        *reinterpret_cast<uint4*>(write_gates + u * kGates * next_slots) =
            load_shared_16(copy_gradient + buffer);
#pragma unroll
        for (int gate = 0; gate < kGates; ++gate) bias[gate] += d[gate][0] + d[gate][1];
      }
      if (sends) ++sent;
      fill();
      if (kTiles == 1 && sends) {
        wait_copy_groups<kAhead - 1>();
        next = before_exchange(0, n + 1, step + 2 == window);
      }
    }

#pragma unroll
    for (int gate = 0; gate < kGates; ++gate) {
      bias[gate] += __shfl_xor_sync(~0U, bias[gate], 1);
      bias[gate] += __shfl_xor_sync(~0U, bias[gate], 2);
      if (q == gate) {
        job.bias_gradient[(place.tile / kTiles * kGates + gate) * kHidden + rank * kLstmCtaHidden +
                          warp * 8 + g] = bias[gate];
      }
    }
  }
  __syncwarp();
  cluster_sync();
}

template <typename Half, int kCtas, int kTiles>
__global__ void __launch_bounds__(kThreads, kCtas <= 2 ? 2 : 1)
    lstm_backward(const __grid_constant__ LstmLaunch<LstmBackwardJob> launch) {
#if __CUDA_ARCH__ >= 900
  run_backward<Half, kCtas, kTiles>(launch);
#endif
}

template <typename Half, int kCtas, int kTiles>
struct Variant {
  static constexpr auto kernel = lstm_backward<Half, kCtas, kTiles>;
  static constexpr size_t shared_bytes = BackwardLayout<kCtas, kTiles>::kBytes;
};

}  // namespace

void launch_lstm_backward(const LstmLaunch<LstmBackwardJob>& launch, cudaStream_t stream) {
  const int clusters = std::min(launch.clusters, items_of(launch));
  prepare<Variant>(launch.kernel, clusters, stream).run(launch);
}

int resident_lstm_backward_clusters(const LstmKernelKind& kind) {
  return prepare<Variant>(kind, 1, nullptr).resident();
}

}  // namespace longship::models
