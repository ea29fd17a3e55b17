#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <vector>

#include "comm/communicator.h"
#include "models/forecaster.h"
#include "runtime/precision.h"

namespace longship::runtime {

// How long an all-reduce takes: seconds of a tiny one, and bytes a second of a large one.
struct CommunicatorSpeed {
  double latency_s = 0;
  double bytes_per_s = 0;
};

// Measures `gradients` with a few all-reduces of tensors on `device`; `host` makes all ranks see
// the slowest one's times. Collective.
CommunicatorSpeed measure_communicator(comm::Communicator& gradients, comm::Communicator& host,
                                       c10::Device device);

// What comm.bucket_mib: auto becomes, in bytes of FP32 gradients: the size at which the latency is
// a sixteenth of the transfer, so that more buckets would cost more than they could hide, in whole
// powers of two between 1 and 64 MiB. wire_bytes: of one element on the wire.
int64_t bucket_bytes_for(const CommunicatorSpeed& speed, int64_t wire_bytes);

// The order in which backward reaches the trainable parameters (indices in registration order),
// seen in one backward of zeros under autocast of `precision`; those that it does not reach come
// last. Leaves no gradients behind and buffers as they were. The model is on `device`, in training
// mode.
std::vector<int64_t> backward_order(models::Forecaster& model, const models::ModelShape& shape,
                                    PrecisionMode precision, c10::Device device);

}  // namespace longship::runtime
