// The forward recurrence of LSTM layers: from the inputs' projections to hidden states and, for
// backward, the gates and cell states.
//
// Algorithm. Per step, with the recurrent weights R of a layer and h = 0, c = 0 at first:
//
//   z = projection + b_ih + b_hh + R h;  i, f, o = sigmoid(z_i, z_f, z_o);  g = tanh(z_g)
//   c = f c + i g;                       h = o tanh(c)
//
// Products take halves and sum in FP32; c, the gates' arithmetic and the biases are FP32; h is
// rounded to a half, once, for its next product and for the output alike. Projections are FP16
// beside FP16 and FP32 beside BF16, whose 8 bits they would lose more by than by all the rest; the
// gates that are kept are FP16 in either case, since they lie between -1 and 1.
//
// Tiling. A cluster's CTA holds the rows of R for its 64 units in registers over all steps: warp w
// the four gates of units 8w to 8w + 7, as two 16 by hidden matrices of mma.m16n8k16, rows 0-7 and
// 8-15 being gates i, f and gates g, o. So a lane's results are the four gates of its own unit and
// samples, and what follows the product needs no exchange between lanes. B is h, turned: 8 samples
// by all hidden units, in shared memory.
//
// With kTiles = 2 a cluster runs two tiles in alternation, and each works while what the other sent
// is on its way: a step of two takes far less than two steps of one, but more than one.
//
// Synchronisation. New hidden states go to every CTA's copy of h (Note [Exchange]; 16 bytes a lane:
// the 8 units of a warp of one sample to one CTA). Projections come by the input ring (Note [Input
// ring]): 16 bytes a thread, or twice that in FP32, of rows that all warps read, so each stage has
// a barrier at which every thread arrives as its copy is done. A stage is filled again when all
// warps have read it: at step t > 0 of a tile a warp has waited for an exchange to which every warp
// of its CTA contributed after it had read its stage of step n - 1; at t = 0 there is a
// __syncthreads.

#include "models/kernels/lstm_cluster.cuh"

namespace longship::models {
namespace lstm {

template <typename Half>
using ProjectionOf = std::conditional_t<std::is_same_v<Half, __half>, __half, float>;

// Of shared memory, and of work, in a cluster of kCtas.
template <typename Half, int kCtas, int kTiles>
struct ForwardLayout {
  static constexpr int kHidden = kLstmCtaHidden * kCtas;
  // h of a tile, in pieces of 8 units of 8 samples, 16 bytes a sample: what a warp sends to a CTA
  // is one piece, as is a matrix to be loaded.
  static constexpr uint32_t kPieceBytes = kLstmTileRows * 16;
  static constexpr uint32_t kExchangeBytes = kHidden / 8 * kPieceBytes;
  // Weights on their way to registers: of a warp's units the rows of each gate.
  static constexpr uint32_t kWeightStride = 2 * kHidden + 16;
  static constexpr uint32_t kWeightBytes = kGates * 8 * kWeightStride;  // of a warp
  // Of a tile in a stage: rows of 64 units, of gate and sample, which 16 bytes keep in different
  // banks.
  static constexpr uint32_t kElement = sizeof(ProjectionOf<Half>);
  static constexpr uint32_t kStageRows = kGates * kLstmTileRows;
  static constexpr uint32_t kPieces = kLstmCtaHidden * kElement / 16;  // of a row
  static constexpr uint32_t kStride = 16 * kPieces + 16;
  static constexpr uint32_t kTileBytes = kStageRows * kStride;
  static constexpr uint32_t kStageBytes = kTiles * kTileBytes;
  static constexpr uint32_t kCopies = kStageRows * kPieces / kThreads;  // of a thread
  static_assert(kStageRows * kPieces == kCopies * kThreads);

  static constexpr uint32_t kFull = 0;                         // barriers of the stages
  static constexpr uint32_t kExchanged = kFull + 8 * kStages;  // and of two exchanges of each tile
  static constexpr uint32_t kH = 128;
  static constexpr uint32_t kRing = kH + 2 * kTiles * kExchangeBytes;
  static constexpr uint32_t kWeights = kRing + kStages * kStageBytes;
  static constexpr uint32_t kBytes = kWeights + kWarps * kWeightBytes;
};

}  // namespace lstm

namespace {

using namespace lstm;    // NOLINT(google-build-using-namespace)
using namespace hopper;  // NOLINT(google-build-using-namespace)

// A lane's projections: of its unit and two samples, each gate. Reads from `row`, which is where
// the lane's part of a tile in a stage begins.
template <typename Layout>
__device__ __forceinline__ void load_projections(float (&x)[kGates][2], uint32_t row) {
  if constexpr (Layout::kElement == 2) {
    uint32_t words[kGates];
    load_matrices_turned(words, row);
#pragma unroll
    for (int gate = 0; gate < kGates; ++gate) {
      const float2 v = unpack<__half>(words[gate]);
      x[gate][0] = v.x;
      x[gate][1] = v.y;
    }
  } else {
#pragma unroll
    for (int gate = 0; gate < kGates; ++gate) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        x[gate][e] =
            __uint_as_float(load_shared_4(row + (gate * kLstmTileRows + e) * Layout::kStride));
      }
    }
  }
}

// The rows of a warp's units, each gate's, by way of its part of shared memory: loads that go
// straight to where the product wants them touch eight lines of the cache each, for 16 bytes.
template <typename Half, typename Layout>
__device__ __forceinline__ void load_weights(uint32_t (&weights)[2][Layout::kHidden / 16][4],
                                             const Half* rows, uint32_t shared, int lane) {
  constexpr int kHidden = Layout::kHidden;
  constexpr int kPieces = kHidden / 8;  // 16 bytes, of a row
  constexpr int kRows = kGates * 8;
  __syncwarp();
#pragma unroll 1
  for (int i = lane; i < kRows * kPieces; i += 32) {
    const int row = i / kPieces;
    copy_async<16>(shared + row * Layout::kWeightStride + i % kPieces * 16,
                   rows + (row / 8 * kHidden + row % 8) * kHidden + i % kPieces * 8);
  }
  end_copy_group();
  wait_copy_groups<0>();
  __syncwarp();
  // Of half h: gates 2h and 2h + 1, each of 16 columns.
  const uint32_t mine =
      shared + (lane / 8 % 2 * 8 + lane % 8) * Layout::kWeightStride + lane / 16 * 16;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
#pragma unroll
    for (int k = 0; k < kHidden / 16; ++k) {
      load_matrices(weights[half][k], mine + half * 16 * Layout::kWeightStride + k * 32);
    }
  }
}

template <typename Half, int kCtas, int kTiles>
__device__ __forceinline__ void run_forward(const LstmLaunch<LstmForwardJob>& launch) {
  using L = ForwardLayout<Half, kCtas, kTiles>;
  using Projection = ProjectionOf<Half>;
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
  const int unit = rank * kLstmCtaHidden + warp * 8;  // the warp's first
  const int cluster = static_cast<int>(blockIdx.x) / kCtas;
  const int clusters = static_cast<int>(gridDim.x) / kCtas;
  const int items = items_of(launch);
  const int window = launch.window;
  const int64_t slots = window + 1;

  if (thread == 0) {
    for (uint32_t i = 0; i < kStages; ++i) init_barrier(base + L::kFull + 8 * i, kThreads);
    for (uint32_t i = 0; i < 2 * kTiles; ++i) init_barrier(base + L::kExchanged + 8 * i, 1);
    publish_barriers();
    for (uint32_t i = 0; i < 2 * kTiles; ++i) {
      expect_bytes(base + L::kExchanged + 8 * i, L::kExchangeBytes);
    }
  }
  cluster_sync();

  // Copies the projections of the step three ahead; each thread 16 bytes of a row of 64 units, and
  // of those that are whole gates further on.
  constexpr int kPieces = L::kPieces;
  constexpr int kRowsOfCopy = kThreads / kPieces;
  static_assert(kRowsOfCopy % kLstmTileRows == 0);
  const int stage_row = thread / kPieces;
  const int64_t in_projection = int64_t{stage_row % kLstmTileRows} * (kGates * kHidden) +
                                stage_row / kLstmTileRows * kHidden + rank * kLstmCtaHidden +
                                thread % kPieces * (16 / int{L::kElement});
  const uint32_t in_stage = base + L::kRing + stage_row * L::kStride + thread % kPieces * 16;
  Cursor ahead{cluster};
  const Projection* projection = nullptr;
  uint32_t filled = 0;
  const auto fill = [&]() {
    if (ahead.item >= items) return;
    if (ahead.step == 0) {
      const Place place = place_of(launch, ahead.item);
      projection = static_cast<const Projection*>(launch.jobs[place.job].projection) +
                   place.tile * slots * (kGates * kSlotHidden) + in_projection;
    }
    const uint32_t stage = filled % kStages;
#pragma unroll
    for (int u = 0; u < kTiles; ++u) {
#pragma unroll
      for (int copy = 0; copy < int{L::kCopies}; ++copy) {
        copy_async<16>(
            in_stage + stage * L::kStageBytes + u * L::kTileBytes + copy * kRowsOfCopy * L::kStride,
            projection + u * slots * (kGates * kSlotHidden) +
                copy * (kRowsOfCopy / kLstmTileRows) * kHidden);
      }
    }
    arrive_with_copies(base + L::kFull + 8 * stage);
    projection += kGates * kSlotHidden;
    ahead.advance(window, clusters);
    ++filled;
  };
  for (int i = 0; i < kAhead; ++i) fill();

  const uint32_t read_h = base + L::kH + lane / 8 * L::kPieceBytes + lane % 8 * 16;
  const uint32_t send_h = in_cta(base + L::kH, q % kCtas) + unit / 8 * L::kPieceBytes + g * 16;
  const uint32_t send_barrier = in_cta(base + L::kExchanged, q % kCtas);
  const uint32_t read_projection =
      base + L::kRing +
      (L::kElement == 2 ? lane * L::kStride + warp * 16 : 2 * q * L::kStride + (warp * 8 + g) * 4);

  uint32_t weights[2][kHidden / 16][4];
  float bias[kGates];
  int loaded = -1;
  uint32_t n = 0;     // steps
  uint32_t sent = 0;  // exchanges of each tile
  for (int item = cluster; item < items; item += clusters) {
    const Place place = place_of(launch, item);
    const LstmForwardJob& job = launch.jobs[place.job];
    if (place.job != loaded) {
      loaded = place.job;
#pragma unroll
      for (int gate = 0; gate < kGates; ++gate) {
        const int row = gate * kHidden + unit + g;
        bias[gate] = job.bias_ih[row] + job.bias_hh[row];
      }
      load_weights<Half, L>(weights, static_cast<const Half*>(job.weight_hh) + unit * kHidden,
                            base + L::kWeights + warp * L::kWeightBytes, lane);
    }
    __syncthreads();

    const int64_t slot_of_h = kLstmTileRows * job.hidden_stride;
    Half* write_h =
        static_cast<Half*>(job.hidden) + place.tile * slots * slot_of_h + rank * kLstmCtaHidden;
    constexpr int kPiecesOfH = kRowBytes / 16;
    if (thread < kLstmTileRows * kPiecesOfH) {
      Half* zeros = write_h + thread / kPiecesOfH * job.hidden_stride + thread % kPiecesOfH * 8;
#pragma unroll
      for (int u = 0; u < kTiles; ++u) {
        *reinterpret_cast<uint4*>(zeros + u * slots * slot_of_h) = uint4{};
      }
      if (place.tile + kTiles == launch.layer_tiles) {
        *reinterpret_cast<uint4*>(zeros + kTiles * slots * slot_of_h) = uint4{};
      }
    }
    write_h += slot_of_h + g * job.hidden_stride + warp * 8;
    const int64_t saved = (place.tile * window * kCtas + rank) * kThreads + thread;
    const int64_t saved_of_tile = int64_t{window} * kCtas * kThreads;
    uint4* write_gates = job.gates == nullptr ? nullptr : static_cast<uint4*>(job.gates) + saved;
    float2* write_cells =
        job.cells == nullptr ? nullptr : reinterpret_cast<float2*>(job.cells) + saved;

    float c[kTiles][2] = {};
    for (int t = 0; t < window; ++t, ++n) {
      const uint32_t stage = n % kStages;
      wait_barrier(base + L::kFull + 8 * stage, n / kStages % 2);
      const bool sends = t + 1 < window;
#pragma unroll
      for (int u = 0; u < kTiles; ++u) {
        float x[kGates][2];
        load_projections<L>(x, read_projection + stage * L::kStageBytes + u * L::kTileBytes);
        // Two sums, so that a product need not wait for the one before.
        float sum[2][2][4];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
#pragma unroll
          for (int k = 0; k < 2; ++k) {
            sum[half][0][2 * k] = x[2 * half + k][0] + bias[2 * half + k];
            sum[half][0][2 * k + 1] = x[2 * half + k][1] + bias[2 * half + k];
            sum[half][1][2 * k] = sum[half][1][2 * k + 1] = 0;
          }
        }
        const uint32_t exchanged = base + L::kExchanged + 16 * u;
        if (t > 0) {
          const uint32_t last = sent - 1;
          wait_barrier(exchanged + 8 * (last % 2), last / 2 % 2);
          const uint32_t h = read_h + (2 * u + last % 2) * L::kExchangeBytes;
#pragma unroll
          for (int pair = 0; pair < kHidden / 32; ++pair) {
            uint32_t b[4];
            load_matrices(b, h + pair * 4 * L::kPieceBytes);
            multiply_add<Half>(sum[0][pair % 2], weights[0][2 * pair], b[0], b[1]);
            multiply_add<Half>(sum[1][pair % 2], weights[1][2 * pair], b[0], b[1]);
            multiply_add<Half>(sum[0][pair % 2], weights[0][2 * pair + 1], b[2], b[3]);
            multiply_add<Half>(sum[1][pair % 2], weights[1][2 * pair + 1], b[2], b[3]);
          }
        }

        float gates[kGates][2];
        float h[2];
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          gates[0][e] = sigmoid_fast(sum[0][0][e] + sum[0][1][e]);
          gates[1][e] = sigmoid_fast(sum[0][0][2 + e] + sum[0][1][2 + e]);
          gates[2][e] = tanh_fast(sum[1][0][e] + sum[1][1][e]);
          gates[3][e] = sigmoid_fast(sum[1][0][2 + e] + sum[1][1][2 + e]);
          c[u][e] = fmaf(gates[1][e], c[u][e], gates[0][e] * gates[2][e]);
          h[e] = gates[3][e] * tanh_fast(c[u][e]);
        }
        // The warp's 8 units of sample g, to each of the group's four lanes.
        const uint32_t mine = turned(pack<Half>(h[0], h[1]));
        uint32_t units[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) units[i] = __shfl_sync(~0U, mine, g * 4 + i);
        if (sends && q < kCtas) {
          store_async(send_h + (2 * u + sent % 2) * L::kExchangeBytes, units,
                      send_barrier + 16 * u + 8 * (sent % 2));
        }
        // Exchange sent - 1 has been waited for, and sent + 1 is the next of its barrier.
        if (t > 0 && thread == 0) {
          expect_bytes(exchanged + 8 * ((sent + 1) % 2), L::kExchangeBytes);
        }
        if (q == 0) {
          *reinterpret_cast<uint4*>(write_h + u * slots * slot_of_h) =
              uint4{units[0], units[1], units[2], units[3]};
        }
        if (write_gates != nullptr) {
          write_gates[u * saved_of_tile] =
              uint4{pack<__half>(gates[0][0], gates[0][1]), pack<__half>(gates[1][0], gates[1][1]),
                    pack<__half>(gates[2][0], gates[2][1]), pack<__half>(gates[3][0], gates[3][1])};
          write_cells[u * saved_of_tile] = float2{c[u][0], c[u][1]};
        }
      }
      if (sends) ++sent;
      write_h += slot_of_h;
      if (write_gates != nullptr) {
        write_gates += kCtas * kThreads;
        write_cells += kCtas * kThreads;
      }
      fill();
    }
    if (q == 0 && job.last != nullptr) {
#pragma unroll
      for (int u = 0; u < kTiles; ++u) {
        const int64_t sample = (place.tile + u) * kLstmTileRows + g;
        *reinterpret_cast<uint4*>(static_cast<Half*>(job.last) + sample * kHidden + unit) =
            *reinterpret_cast<const uint4*>(write_h - slot_of_h + u * slots * slot_of_h);
      }
    }
  }
  __syncwarp();
  cluster_sync();
}

template <typename Half, int kCtas, int kTiles>
__global__ void __launch_bounds__(kThreads, kCtas <= 2 ? 2 : 1)
    lstm_forward(const __grid_constant__ LstmLaunch<LstmForwardJob> launch) {
#if __CUDA_ARCH__ >= 900
  run_forward<Half, kCtas, kTiles>(launch);
#endif
}

template <typename Half, int kCtas, int kTiles>
struct Variant {
  static constexpr auto kernel = lstm_forward<Half, kCtas, kTiles>;
  static constexpr size_t shared_bytes = ForwardLayout<Half, kCtas, kTiles>::kBytes;
};

}  // namespace

void launch_lstm_forward(const LstmLaunch<LstmForwardJob>& launch, cudaStream_t stream) {
  const int clusters = std::min(launch.clusters, items_of(launch));
  prepare<Variant>(launch.kernel, clusters, stream).run(launch);
}

int resident_lstm_forward_clusters(const LstmKernelKind& kind) {
  return prepare<Variant>(kind, 1, nullptr).resident();
}

}  // namespace longship::models
