// What the two recurrence kernels of models/lstm_recurrence.h share.
//
// A cluster of hidden / 64 CTAs runs a tile of 8 samples through the window. Each CTA owns 64
// hidden units with their four gates, in 8 warps of 8 units; lane l of a warp owns unit g = l / 4
// and samples 2q and 2q + 1, q = l % 4: the share of a result that mma.m16n8k16 gives it.
//
// Steps are counted over all tiles of a cluster (n), and so are exchanges (s), one between any two
// steps of a tile. A cluster may run two tiles in alternation, with buffers and barriers of their
// own; what is said of a tile then holds of each.
//
// Note [Input ring]
// What a step reads from global memory is copied into one of four stages of shared memory three
// steps ahead: step n uses stage n % 4, which is filled again, for step n + 4, at the end of step
// n + 1. (Copies are cp.async: the copy engine takes its operands from uniform registers, so rows
// as short as these cost it about a hundred cycles each, more than a step has.)
//
// Note [Exchange]
// A step ends with every CTA sending its share to the CTAs of the cluster by st.async; the tile's
// next begins with waiting for all shares. There are two buffers with a barrier each: exchange s
// uses buffer s % 2, and ends phase s / 2 of its barrier when all bytes of all CTAs have come and
// thread 0 has announced them.
//
// No overwriting: a warp sends exchange s only after it has waited for exchange s - 1, which every
// CTA of the cluster sends only after its warps have read exchange s - 2 (forward: each warp after
// its own read, and all of a CTA's warps send to all CTAs; backward: a __syncthreads lies between).
// So the buffer that exchange s is written to has been read.
//
// No lost or early phase: bytes of exchange s cannot come before phase s / 2 - 1 of their barrier
// has ended, since by the above its end has been seen by every warp. They may come before thread 0
// announces them: the phase then stays open, as that arrival is missing. Thread 0 announces
// exchange s + 1 in the step in which it has waited for s - 1, hence before it waits for s + 1.
//
// No deadlock: a cluster's CTAs run at the same time, by what a cluster is. Order the waits of a
// cluster by (exchange, warp): each waits for sends that depend on waits of earlier exchanges only,
// and for copies that were started in earlier steps. Nothing waits for another cluster, so neither
// the number of resident clusters nor their order matters.
//
// The end: a tile's last step sends nothing, and each step before it is followed by a wait. So a
// CTA has received all that is sent to it when it leaves, and what it sent goes to CTAs that wait
// for it. (The barrier of the cluster before the end costs nothing and makes it plain.)
//
// Measured and left out, together (steps took 8 to 20 % longer on an H200): to let one tile's
// arithmetic mix with the other's product by waiting for both exchanges first, which exposes what
// the alternation hides; and to send after a tile's last step too, which saves branches only.

#pragma once

#include <algorithm>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "models/kernels/hopper.cuh"
#include "models/lstm_recurrence.h"

namespace longship::models::lstm {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kGates = 4;
constexpr int kStages = 4;
constexpr int kAhead = kStages - 1;
constexpr int kRowBytes = kLstmCtaHidden * 2;  // of a CTA's units, halves

struct Place {
  int job;
  int64_t tile;  // the first of an item
};

template <typename Job>
__device__ __forceinline__ Place place_of(const LstmLaunch<Job>& launch, int item) {
  const int64_t tile = int64_t{item} * launch.kernel.tiles;
  const int64_t first = launch.jobs[0].tiles;
  if (tile < first) return {0, launch.jobs[0].first_tile + tile};
  return {1, launch.jobs[1].first_tile + (tile - first)};
}

// What a cluster takes at a time.
template <typename Job>
__host__ __device__ __forceinline__ int items_of(const LstmLaunch<Job>& launch) {
  return static_cast<int>((launch.jobs[0].tiles + launch.jobs[1].tiles) / launch.kernel.tiles);
}

// Steps of a cluster's tiles, one after the other.
struct Cursor {
  int item;
  int step = 0;

  __device__ __forceinline__ void advance(int window, int clusters) {
    if (++step == window) {
      step = 0;
      item += clusters;
    }
  }
};

inline void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) {
    throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
  }
}

// A launch of clusters of `ctas` CTAs, of a kernel that takes one argument.
class ClusterLaunch {
 public:
  ClusterLaunch(const void* kernel, int ctas, int clusters, size_t shared_bytes,
                cudaStream_t stream)
      : kernel_(kernel) {
    attributes_[0].id = cudaLaunchAttributeClusterDimension;
    attributes_[0].val.clusterDim = {static_cast<unsigned>(ctas), 1, 1};
    // Its blocks come before those of products that run beside it: it is what others wait for.
    int least = 0;
    int greatest = 0;
    check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "priorities of kernels");
    attributes_[1].id = cudaLaunchAttributePriority;
    attributes_[1].val.priority = greatest;
    config_.gridDim = dim3(static_cast<unsigned>(ctas * clusters));
    config_.blockDim = dim3(kThreads);
    config_.dynamicSmemBytes = shared_bytes;
    config_.stream = stream;
    config_.attrs = attributes_;
    config_.numAttrs = 2;
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(shared_bytes)),
          "shared memory of an LSTM kernel");
  }
  ClusterLaunch(const ClusterLaunch&) = delete;
  ClusterLaunch& operator=(const ClusterLaunch&) = delete;

  int resident() {
    int clusters = 0;
    check(cudaOccupancyMaxActiveClusters(&clusters, kernel_, &config_),
          "resident clusters of an LSTM kernel");
    return clusters;
  }
  template <typename Argument>
  void run(const Argument& argument) {
    void* arguments[] = {const_cast<Argument*>(&argument)};
    check(cudaLaunchKernelExC(&config_, kernel_, arguments), "an LSTM kernel cannot be launched");
  }

 private:
  const void* kernel_;
  cudaLaunchAttribute attributes_[2] = {};
  cudaLaunchConfig_t config_{};
};

// A launch of the kernel of a kind. Variant<Half, kCtas, kTiles> has `kernel` and `shared_bytes`.
template <template <typename, int, int> typename Variant>
ClusterLaunch prepare(const LstmKernelKind& kind, int clusters, cudaStream_t stream) {
  struct Choice {
    const void* kernel;
    size_t shared_bytes;
  };
  const auto of = [&]<typename Half, int kCtas>(Half, std::integral_constant<int, kCtas>) {
    if constexpr (kCtas * kLstmCtaHidden >= kLstmLeastPairedHidden) {
      if (kind.tiles == 2) {
        using V = Variant<Half, kCtas, 2>;
        return Choice{reinterpret_cast<const void*>(V::kernel), V::shared_bytes};
      }
    }
    using V = Variant<Half, kCtas, 1>;
    return Choice{reinterpret_cast<const void*>(V::kernel), V::shared_bytes};
  };
  const int ctas = kind.hidden / kLstmCtaHidden;
  const auto with = [&]<typename Half>(Half half) {
    switch (ctas) {
      case 1:
        return of(half, std::integral_constant<int, 1>{});
      case 2:
        return of(half, std::integral_constant<int, 2>{});
      case 3:
        return of(half, std::integral_constant<int, 3>{});
      default:
        return of(half, std::integral_constant<int, 4>{});
    }
  };
  const Choice choice = kind.bfloat16 ? with(__nv_bfloat16{}) : with(__half{});
  return {choice.kernel, ctas, clusters, choice.shared_bytes, stream};
}

}  // namespace longship::models::lstm
