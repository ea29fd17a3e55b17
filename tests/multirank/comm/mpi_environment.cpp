#include "mpi_environment.h"

#include <stdexcept>

namespace longship::comm {
namespace {

MpiEnvironment*& slot() {
  static MpiEnvironment* environment = nullptr;
  return environment;
}

}  // namespace

MpiEnvironment::MpiEnvironment(std::chrono::seconds timeout)
    : runtime_(timeout), communicator_(runtime_.make_communicator()) {
  slot() = this;
}

MpiEnvironment::~MpiEnvironment() {
  slot() = nullptr;
}

MpiEnvironment& MpiEnvironment::current() {
  if (slot() == nullptr) throw std::logic_error("main has made no MpiEnvironment");
  return *slot();
}

}  // namespace longship::comm
