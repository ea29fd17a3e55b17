#pragma once

#include <string>
#include <vector>

#include "comm/communicator.h"
#include "models/forecaster.h"
#include "runtime/precision.h"

namespace longship::runtime {

// One of a model's implementations (Forecaster::implementations) and how long a batch takes by it.
struct TimedImplementation {
  std::string name;
  double ms = 0;  // infinite where the device's memory did not suffice
};

// Times every implementation that the model offers for `inputs`: a forward pass, and backward too
// where the model is in training mode, under autocast of `precision`. as_graph: as replays of a
// CUDA graph, on a stream that is not CUDA's default one; else, and where the pass cannot be
// recorded, with every launch. Leaves no gradients. Empty where there is nothing to choose. Where
// `known` is offered, nothing is timed, and it comes back alone with 0 ms.
std::vector<TimedImplementation> time_implementations(models::Forecaster& model,
                                                      const models::Inputs& inputs,
                                                      PrecisionMode precision, bool as_graph,
                                                      const std::string& known = {});

// The fastest, the first of equals; empty of none.
std::string fastest(const std::vector<TimedImplementation>& timed);

// "own, 0.546 ms (cudnn 1.93 ms)"
std::string choice_text(const std::string& chosen, const std::vector<TimedImplementation>& timed);

// The implementations that every rank timed, each with its slowest rank's time. Collective.
std::vector<TimedImplementation> agree_on_times(const std::vector<TimedImplementation>& mine,
                                                comm::Communicator& host);

// Both, for a batch of this shape on each rank's device, with the model as it is. Collective.
std::vector<TimedImplementation> time_on_all_ranks(models::Forecaster& model, int64_t batch,
                                                   const models::ModelShape& shape,
                                                   PrecisionMode precision, bool as_graph,
                                                   c10::Device device, comm::Communicator& host,
                                                   const std::string& host_name,
                                                   const std::string& known = {});

}  // namespace longship::runtime
