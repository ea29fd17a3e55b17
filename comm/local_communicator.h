#pragma once

#include <memory>
#include <vector>

#include "comm/communicator.h"

namespace longship::comm {

// A communicator of one rank: every collective is the identity.
std::unique_ptr<Communicator> make_local_communicator();

// A group whose ranks are threads of this process, for tests: element r belongs to the thread that
// plays rank r. Reductions are made in rank order, in the tensors' dtype.
std::vector<std::unique_ptr<Communicator>> make_local_group(int size);

}  // namespace longship::comm
