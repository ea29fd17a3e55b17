#include "comm/text_collectives.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace longship::comm {

std::vector<std::string> all_gather_text(Communicator& communicator, const std::string& text) {
  const int size = communicator.size();
  const at::Tensor length = at::empty({1}, at::kLong);
  length.data_ptr<int64_t>()[0] = static_cast<int64_t>(text.size());
  const at::Tensor lengths = at::empty({size}, at::kLong);
  communicator.all_gather(length, lengths);
  const int64_t* length_of = lengths.data_ptr<int64_t>();
  const int64_t widest = *std::max_element(length_of, length_of + size);

  const at::Tensor row = at::zeros({widest}, at::kByte);
  if (!text.empty()) std::memcpy(row.data_ptr(), text.data(), text.size());
  const at::Tensor rows = at::empty({size, widest}, at::kByte);
  communicator.all_gather(row, rows);

  std::vector<std::string> texts;
  texts.reserve(static_cast<size_t>(size));
  const auto* bytes = static_cast<const char*>(rows.data_ptr());
  for (int r = 0; r < size; ++r) {
    texts.emplace_back(length_of[r] == 0
                           ? std::string()
                           : std::string(bytes + r * widest, static_cast<size_t>(length_of[r])));
  }
  return texts;
}

std::string broadcast_text(Communicator& communicator, const std::string& text, int root) {
  const bool is_root = communicator.rank() == root;
  const at::Tensor length = at::zeros({1}, at::kLong);
  if (is_root) length.data_ptr<int64_t>()[0] = static_cast<int64_t>(text.size());
  communicator.broadcast(length, root);
  const int64_t bytes = length.data_ptr<int64_t>()[0];
  if (bytes == 0) return {};

  const at::Tensor buffer = at::empty({bytes}, at::kByte);
  if (is_root) std::memcpy(buffer.data_ptr(), text.data(), text.size());
  communicator.broadcast(buffer, root);
  return {static_cast<const char*>(buffer.data_ptr()), static_cast<size_t>(bytes)};
}

}  // namespace longship::comm
