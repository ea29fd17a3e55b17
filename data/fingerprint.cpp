#include "data/fingerprint.h"

#include <ATen/core/Tensor.h>
#include <xxhash.h>

#include <memory>
#include <new>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

namespace longship::data {
namespace {

class Hash {
 public:
  Hash() : state_(XXH3_createState()) {
    if (!state_ || XXH3_64bits_reset(state_.get()) != XXH_OK) throw std::bad_alloc();
  }

  void bytes(const void* data, size_t size) {
    if (size > 0) XXH3_64bits_update(state_.get(), data, size);
  }
  template <typename T>
  void number(T value) {
    static_assert(std::is_arithmetic_v<T>);
    bytes(&value, sizeof value);
  }
  // With lengths, so that neighbouring lists cannot be cut elsewhere to the same bytes.
  void names(const std::vector<std::string>& list) {
    number(static_cast<uint64_t>(list.size()));
    for (const std::string& name : list) {
      number(static_cast<uint64_t>(name.size()));
      bytes(name.data(), name.size());
    }
  }
  uint64_t digest() const { return XXH3_64bits_digest(state_.get()); }

 private:
  struct Free {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };
  std::unique_ptr<XXH3_state_t, Free> state_;
};

void add(Hash& hash, const SplitFractions& shares) {
  for (const double share : shares) hash.number(share);
}

void add(Hash& hash, const SplitRows& ranges) {
  for (const auto& range : ranges) {
    hash.number(range[0]);
    hash.number(range[1]);
  }
}

void add(Hash& hash, const SplitDates& dates) {
  for (const int64_t date : dates) hash.number(date);
}

}  // namespace

uint64_t fingerprint_of(const SeriesTable& table, const DatasetSpec& spec) {
  Hash hash;
  hash.names(spec.inputs);
  hash.names(spec.targets);
  hash.number(spec.window);
  hash.number(spec.horizon);
  hash.number(spec.stride);
  hash.number(static_cast<uint64_t>(spec.split.index()));
  std::visit([&](const auto& parts) { add(hash, parts); }, spec.split);
  hash.number(static_cast<uint64_t>(table.offsets.size()));
  hash.bytes(table.offsets.data(), table.offsets.size() * sizeof(int64_t));
  hash.bytes(table.values.const_data_ptr(), table.values.nbytes());
  return hash.digest();
}

}  // namespace longship::data
