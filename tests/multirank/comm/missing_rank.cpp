// Run by missing_rank_check.py: the last rank never comes to a collective. The others must say so
// within the limit, and abort() must end the job with the given code.

#include <ATen/ops/ones.h>

#include <chrono>
#include <iostream>
#include <thread>

#include "comm/error.h"
#include "comm/mpi_runtime.h"

int main() {
  longship::comm::MpiRuntime runtime(std::chrono::seconds(2));
  const auto communicator = runtime.make_communicator();
  communicator->barrier();
  if (runtime.rank() == runtime.size() - 1) {
    std::this_thread::sleep_for(std::chrono::seconds(100));  // abort() of another rank ends it
    return 1;
  }
  try {
    communicator->all_reduce(at::ones({5}), longship::comm::ReduceOp::kSum);
  } catch (const longship::comm::CommError& error) {
    const bool peer = error.kind() == longship::comm::CommError::Kind::kPeer;
    std::cout << (peer ? "kPeer: " : "kSetup: ") << error.what() << std::endl;
    if (runtime.rank() == 0) runtime.abort(86);
    std::this_thread::sleep_for(std::chrono::seconds(100));
  }
  return 1;
}
