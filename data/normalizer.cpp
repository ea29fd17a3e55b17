#include "data/normalizer.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <cstdint>

#include "data/error.h"
#include "data/series_store.h"

namespace longship::data {
namespace {

at::Tensor pick(const Normalizer& normalizer, const std::vector<double>& from,
                const std::vector<std::string>& names, const at::Tensor& like) {
  std::vector<double> picked;
  picked.reserve(names.size());
  for (const std::string& name : names) picked.push_back(from[normalizer.index(name)]);
  return at::tensor(picked, at::TensorOptions().dtype(at::kDouble)).to(like.device());
}

void check_width(const at::Tensor& values, const std::vector<std::string>& names) {
  if (values.dim() == 0 || values.size(-1) != static_cast<int64_t>(names.size())) {
    throw DataError("values of " + std::to_string(values.dim() == 0 ? 0 : values.size(-1)) +
                    " columns do not fit the " + std::to_string(names.size()) + " names " +
                    listed(names));
  }
}

}  // namespace

size_t Normalizer::index(const std::string& column) const {
  const auto found = std::find(columns.begin(), columns.end(), column);
  if (found == columns.end()) {
    throw DataError("the model's normaliser does not know the column '" + column + "'; it knows " +
                    listed(columns));
  }
  return static_cast<size_t>(found - columns.begin());
}

// Both compute in double: float32 would lose digits of a large shift.
at::Tensor Normalizer::normalize(const at::Tensor& values,
                                 const std::vector<std::string>& names) const {
  check_width(values, names);
  const at::Tensor shifted = values.to(at::kDouble) - pick(*this, shift, names, values);
  return (shifted / pick(*this, scale, names, values)).to(values.scalar_type());
}

at::Tensor Normalizer::denormalize(const at::Tensor& values,
                                   const std::vector<std::string>& names) const {
  check_width(values, names);
  const at::Tensor scaled = values.to(at::kDouble) * pick(*this, scale, names, values);
  return (scaled + pick(*this, shift, names, values)).to(values.scalar_type());
}

}  // namespace longship::data
