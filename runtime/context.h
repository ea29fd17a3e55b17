#pragma once

#include <c10/core/Device.h>
#include <spdlog/logger.h>

#include <memory>
#include <string>

#include "comm/communicator.h"

namespace longship::runtime {

// What a rank works with; handed down instead of globals. Owns only the logger.
struct Context {
  comm::Communicator& host;       // CPU tensors: agreements and small results
  comm::Communicator& votes;      // CPU tensors: the control channel's own
  comm::Communicator& gradients;  // tensors on `device`
  c10::Device device;
  std::string host_name;
  std::shared_ptr<spdlog::logger> log;

  int rank() const { return host.rank(); }
  int size() const { return host.size(); }
  bool leader() const { return host.rank() == 0; }
};

}  // namespace longship::runtime
