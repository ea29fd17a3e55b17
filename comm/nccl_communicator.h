#pragma once

#include <chrono>
#include <memory>

#include "comm/communicator.h"

namespace longship::comm {

// A communicator over NCCL for CUDA tensors of one device; all ranks of `host` take part. The
// unique id goes round by a broadcast on `host`, the initialisation has the time limit. Collective.
// Throws CommError (kSetup): also when two ranks share one GPU (their UUIDs are compared before
// NCCL starts), naming both ranks, the host and the remedy. The barrier is a one-element
// all-reduce.
std::unique_ptr<Communicator> make_nccl_communicator(Communicator& host, int device,
                                                     std::chrono::seconds timeout);

// NCCL's version as "2.28.9".
std::string nccl_version();

}  // namespace longship::comm
