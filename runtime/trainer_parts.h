#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "comm/gradient_reducer.h"
#include "models/forecaster.h"
#include "runtime/config.h"
#include "runtime/optimizer.h"

namespace longship::runtime {

struct NamedParameter {
  std::string name;
  at::Tensor tensor;  // float32 leaf
};

// The trainable parameters under their checkpoint names, in registration order.
std::vector<NamedParameter> named_parameters(const models::Forecaster& model);

// What of them this rank updates, in the same order.
std::vector<UpdatedPart> updated_parts(const models::Forecaster& model,
                                       const comm::GradientReducer& reducer);

// comm.bucket_mib, comm.wire and optimizer.shard as the reducer's options.
comm::ReducerOptions reducer_options(const Config& config);
std::unique_ptr<comm::GradientReducer> make_reducer(const Config& config,
                                                    const models::Forecaster& model,
                                                    comm::Communicator& communicator);
std::unique_ptr<comm::GradientReducer> make_reducer(comm::ReducerOptions options,
                                                    const models::Forecaster& model,
                                                    comm::Communicator& communicator);

// A hash of all parameters' and buffers' bytes, non-negative and below 2^62; copies them to the
// CPU.
int64_t parameter_checksum(const models::Forecaster& model);

}  // namespace longship::runtime
