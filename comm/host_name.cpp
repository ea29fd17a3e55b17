#include "comm/host_name.h"

#include <unistd.h>

#include <array>

namespace longship::comm {

std::string host_name() {
  std::array<char, 256> name{};
  // The last byte stays zero, so that a truncated name ends.
  if (gethostname(name.data(), name.size() - 1) != 0) return "unknown host";
  return name.data();
}

}  // namespace longship::comm
