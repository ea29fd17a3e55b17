#include "comm/mpi_runtime.h"

#include "comm/mpi_communicator.h"
#include "comm/mpi_thread.h"

namespace longship::comm {

struct MpiRuntime::Impl {
  explicit Impl(std::chrono::seconds timeout) : thread(std::make_shared<MpiThread>(timeout)) {}
  std::shared_ptr<MpiThread> thread;
};

MpiRuntime::MpiRuntime(std::chrono::seconds timeout) : impl_(std::make_unique<Impl>(timeout)) {}
MpiRuntime::~MpiRuntime() = default;

int MpiRuntime::rank() const {
  return impl_->thread->world().rank;
}
int MpiRuntime::size() const {
  return impl_->thread->world().size;
}
int MpiRuntime::local_rank() const {
  return impl_->thread->world().local_rank;
}
int MpiRuntime::local_size() const {
  return impl_->thread->world().local_size;
}
int MpiRuntime::node_count() const {
  return impl_->thread->world().node_count;
}
int MpiRuntime::node() const {
  return impl_->thread->world().node;
}
const std::string& MpiRuntime::host() const {
  return impl_->thread->world().host;
}
const std::string& MpiRuntime::library_version() const {
  return impl_->thread->world().library_version;
}

std::unique_ptr<Communicator> MpiRuntime::make_communicator() {
  return std::make_unique<MpiCommunicator>(impl_->thread);
}

void MpiRuntime::abort(int code) {
  impl_->thread->abort(code);
}

}  // namespace longship::comm
