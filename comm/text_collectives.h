#pragma once

#include <string>
#include <vector>

#include "comm/communicator.h"

namespace longship::comm {

// Text of any length from every rank, in rank order, on every rank. Collective, CPU tensors.
std::vector<std::string> all_gather_text(Communicator& communicator, const std::string& text);
// The root's text on every rank.
std::string broadcast_text(Communicator& communicator, const std::string& text, int root);

}  // namespace longship::comm
