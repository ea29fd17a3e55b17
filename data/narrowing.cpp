#include "data/narrowing.h"

#include "data/number_text.h"

namespace longship::data {

std::string LostChange::text() const {
  return number_text(before) + " and " + number_text(value) + ", which are both " +
         number_text(double{static_cast<float>(value)}) +
         " in float32, and most of its variation is lost so";
}

}  // namespace longship::data
