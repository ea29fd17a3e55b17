#pragma once

#include <chrono>
#include <memory>

#include "comm/communicator.h"
#include "comm/mpi_runtime.h"

namespace longship::comm {

// MPI for the life of a test program, and one communicator that the tests share. Made once, in
// main; tests reach it by current().
class MpiEnvironment {
 public:
  explicit MpiEnvironment(std::chrono::seconds timeout);
  ~MpiEnvironment();
  MpiEnvironment(const MpiEnvironment&) = delete;
  MpiEnvironment& operator=(const MpiEnvironment&) = delete;

  static MpiEnvironment& current();

  MpiRuntime& runtime() { return runtime_; }
  Communicator& communicator() { return *communicator_; }

 private:
  MpiRuntime runtime_;
  std::unique_ptr<Communicator> communicator_;
};

}  // namespace longship::comm
