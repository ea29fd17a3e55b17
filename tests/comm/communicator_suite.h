#pragma once

#include <c10/core/Device.h>

#include <ostream>
#include <vector>

#include "comm/communicator.h"

namespace longship::comm::suite {

// One property that every communicator must have. All ranks run it together.
struct Case {
  const char* name;
  void (*run)(Communicator& communicator, c10::Device device);
};

// For gtest's messages.
inline void PrintTo(const Case& suite_case, std::ostream* out) {
  *out << suite_case.name;
}

// The cases for tensors on any device, and those for communicators that take CPU tensors.
std::vector<Case> tensor_cases();
std::vector<Case> host_cases();

}  // namespace longship::comm::suite
