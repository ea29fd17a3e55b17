#include "data/normalizer.h"

#include <algorithm>

#include "data/error.h"
#include "data/series_store.h"

namespace longship::data {
size_t Normalizer::index(const std::string& column) const {
  const auto found = std::find(columns.begin(), columns.end(), column);
  if (found == columns.end()) {
    throw DataError("the model's normaliser does not know the column '" + column + "'; it knows " +
                    listed(columns));
  }
  return static_cast<size_t>(found - columns.begin());
}

}  // namespace longship::data
