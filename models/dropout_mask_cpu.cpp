#include "models/dropout_mask.h"
#include "models/philox.h"

namespace longship::models {
namespace {

template <typename Element>
void write(const DropoutMask& m) {
  const uint64_t key = draw_key(m.seed, m.counters[0], m.counters[1], m.layer);
  auto* mask = static_cast<Element*>(m.mask);
  for (int64_t four = 0; four * 4 < m.elements; ++four) {
    const Philox draw = Philox::at(key, static_cast<uint64_t>(four));
    for (int64_t k = 0; k < 4 && four * 4 + k < m.elements; ++k) {
      mask[four * 4 + k] = keeps(draw.words[k], m.keep) ? static_cast<Element>(m.kept) : Element{0};
    }
  }
}

}  // namespace

void write_mask_cpu(const DropoutMask& m) {
  switch (m.element_bytes) {
    case 2:
      return write<uint16_t>(m);
    case 4:
      return write<uint32_t>(m);
    default:
      return write<uint64_t>(m);
  }
}

}  // namespace longship::models
