// Writes a dropout mask. Four elements share one draw of four random words, so element i depends on
// its own number, the key and nothing else. Step and micro-batch are read from memory: a captured
// kernel draws anew in every replay.

#include <algorithm>
#include <stdexcept>
#include <string>

#include "models/dropout_mask.h"
#include "models/philox.h"

namespace longship::models {
namespace {

constexpr int kThreads = 256;

template <typename Element>
__global__ void __launch_bounds__(kThreads) write_mask(DropoutMask m) {
  const uint64_t key = draw_key(m.seed, m.counters[0], m.counters[1], m.layer);
  auto* mask = static_cast<Element*>(m.mask);
  const int64_t stride = int64_t{gridDim.x} * kThreads;
  for (int64_t four = int64_t{blockIdx.x} * kThreads + threadIdx.x; four * 4 < m.elements;
       four += stride) {
    const Philox draw = Philox::at(key, static_cast<uint64_t>(four));
    for (int k = 0; k < 4 && four * 4 + k < m.elements; ++k) {
      mask[four * 4 + k] = keeps(draw.words[k], m.keep) ? static_cast<Element>(m.kept) : Element{0};
    }
  }
}

}  // namespace

void write_mask_cuda(const DropoutMask& m, cudaStream_t stream) {
  constexpr int64_t kPerBlock = int64_t{kThreads} * 4;
  constexpr int64_t kMostBlocks = 2112;
  const auto blocks = static_cast<unsigned>(
      std::clamp<int64_t>((m.elements + kPerBlock - 1) / kPerBlock, 1, kMostBlocks));
  switch (m.element_bytes) {
    case 2:
      write_mask<uint16_t><<<blocks, kThreads, 0, stream>>>(m);
      break;
    case 4:
      write_mask<uint32_t><<<blocks, kThreads, 0, stream>>>(m);
      break;
    default:
      write_mask<uint64_t><<<blocks, kThreads, 0, stream>>>(m);
      break;
  }
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) {
    throw std::runtime_error(std::string("write_mask cannot be launched: ") +
                             cudaGetErrorString(error));
  }
}

}  // namespace longship::models
