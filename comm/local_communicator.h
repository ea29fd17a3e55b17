#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "comm/communicator.h"

namespace longship::comm {

// A communicator of one rank: every collective is the identity.
std::unique_ptr<Communicator> make_local_communicator();

// A group whose ranks are threads of this process, for tests: element r belongs to the thread that
// plays rank r. Reductions are made in rank order, in the tensors' dtype. A collective that some
// rank does not enter within the time limit throws CommError (kPeer) naming the missing ranks; one
// that ranks enter with different operations, sizes or dtypes throws std::logic_error on all.
std::vector<std::unique_ptr<Communicator>> make_local_group(
    int size, std::chrono::milliseconds timeout = std::chrono::seconds(60));

}  // namespace longship::comm
