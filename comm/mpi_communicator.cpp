#include "comm/mpi_communicator.h"

#include <climits>
#include <exception>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "comm/error.h"
#include "comm/finished_work.h"
#include "comm/staged_tensor.h"
#include "comm/tensor_checks.h"

namespace longship::comm {
namespace {

// MPI counts elements in an int.
int count_of(const std::string& collective, const at::Tensor& tensor) {
  if (tensor.numel() > INT_MAX) {
    throw std::invalid_argument(collective + ": " + std::to_string(tensor.numel()) +
                                " elements are more than one MPI call takes (2147483647)");
  }
  return static_cast<int>(tensor.numel());
}

// An operation whose result is where `staged` is, and to be delivered.
class StagedWork final : public Work {
 public:
  StagedWork(std::shared_ptr<MpiThread> thread, std::shared_ptr<MpiOperation> operation,
             StagedTensor staged)
      : thread_(std::move(thread)), operation_(std::move(operation)), staged_(std::move(staged)) {}
  ~StagedWork() override {
    // Once the group is broken the end may never come; MPI's hold on the memory ends with the
    // operation, which keeps it.
    if (waited_ || thread_->broken()) return;
    try {
      thread_->wait(*operation_);
    } catch (const std::exception&) {  // a destructor cannot report it; the next collective will
    }
  }
  StagedWork(const StagedWork&) = delete;
  StagedWork& operator=(const StagedWork&) = delete;

  bool done() override { return waited_ || thread_->finished(*operation_); }
  void wait() override {
    if (waited_) return;
    thread_->wait(*operation_);
    staged_.deliver();
    waited_ = true;
  }

 private:
  std::shared_ptr<MpiThread> thread_;
  std::shared_ptr<MpiOperation> operation_;
  StagedTensor staged_;
  bool waited_ = false;
};

}  // namespace

MpiCommunicator::MpiCommunicator(std::shared_ptr<MpiThread> thread)
    : thread_(std::move(thread)), queue_(thread_->make_queue()) {
  // The handle is written when the operation ends, perhaps after we have given up waiting.
  auto duplicate = std::make_shared<MPI_Comm>(MPI_COMM_NULL);
  const auto made =
      thread_->submit(queue_, "MPI_Comm_idup", nullptr, [duplicate](MPI_Request* request) {
        return MPI_Comm_idup(MPI_COMM_WORLD, duplicate.get(), request);
      });
  thread_->wait(*made);
  comm_ = *duplicate;
  const auto set = thread_->submit(queue_, "MPI_Comm_set_errhandler", nullptr,
                                   [comm = comm_](MPI_Request* /*request*/) {
                                     return MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
                                   });
  thread_->wait(*set);
}

MpiCommunicator::~MpiCommunicator() {
  if (thread_->broken()) return;
  try {
    const auto freed =
        thread_->submit(queue_, "MPI_Comm_free", nullptr, [comm = comm_](MPI_Request* /*request*/) {
          MPI_Comm handle = comm;
          return MPI_Comm_free(&handle);
        });
    thread_->wait(*freed);
  } catch (const std::exception&) {  // marks the thread broken, which its destructor heeds
  }
}

std::shared_ptr<MpiOperation> MpiCommunicator::submit(const std::string& collective,
                                                      const at::Tensor& tensor,
                                                      const std::string& detail,
                                                      std::function<bool()> ready,
                                                      std::function<int(MPI_Request*)> start) {
  std::ostringstream name;
  name << collective << " #" << next_++;
  if (tensor.defined()) {
    name << " (" << c10::toString(tensor.scalar_type()) << " x " << tensor.numel() << ", " << detail
         << ')';
  }
  return thread_->submit(queue_, name.str(), std::move(ready), std::move(start));
}

std::unique_ptr<Work> MpiCommunicator::all_reduce_async(at::Tensor tensor, ReduceOp op) {
  check_reduced("all_reduce", tensor, op);
  const int count = count_of("all_reduce", tensor);
  if (count == 0) return std::make_unique<FinishedWork>();
  const StagedTensor staged(tensor, StagedTensor::Use::kSend);
  const MPI_Datatype type = mpi_type(tensor.scalar_type());
  const MPI_Op mpi_op = thread_->half_sums().operation(op, tensor.scalar_type());
  // The operation itself holds the memory, for it may outlive a Work that gave up.
  auto memory = std::make_shared<StagedTensor>(staged);
  auto operation = submit("all_reduce", tensor, name_of(op), staged.ready(),
                          [memory, count, type, mpi_op, comm = comm_](MPI_Request* request) {
                            return MPI_Iallreduce(MPI_IN_PLACE, memory->data(), count, type, mpi_op,
                                                  comm, request);
                          });
  return std::make_unique<StagedWork>(thread_, std::move(operation), staged);
}

void MpiCommunicator::broadcast(at::Tensor tensor, int root) {
  check_moved("broadcast", tensor);
  check_root("broadcast", root, size());
  const int count = count_of("broadcast", tensor);
  if (count == 0) return;
  const auto use = rank() == root ? StagedTensor::Use::kSend : StagedTensor::Use::kReceive;
  const StagedTensor staged(tensor, use);
  const MPI_Datatype type = mpi_type(tensor.scalar_type());
  const auto operation =
      submit("broadcast", tensor, "root " + std::to_string(root), staged.ready(),
             [staged, count, type, root, comm = comm_](MPI_Request* request) {
               return MPI_Ibcast(staged.data(), count, type, root, comm, request);
             });
  thread_->wait(*operation);
  if (rank() != root) staged.deliver();
}

void MpiCommunicator::all_gather(const at::Tensor& input, at::Tensor output) {
  check_gathered(input, output, size());
  const int count = count_of("all_gather", input);
  if (count == 0) return;
  const StagedTensor source(input, StagedTensor::Use::kSend);
  const StagedTensor target(std::move(output), StagedTensor::Use::kReceive);
  const MPI_Datatype type = mpi_type(input.scalar_type());
  const auto operation = submit("all_gather", input, "from each rank", source.ready(),
                                [source, target, count, type, comm = comm_](MPI_Request* request) {
                                  return MPI_Iallgather(source.data(), count, type, target.data(),
                                                        count, type, comm, request);
                                });
  thread_->wait(*operation);
  target.deliver();
}

std::unique_ptr<Work> MpiCommunicator::reduce_scatter_async(const at::Tensor& input,
                                                            at::Tensor output, ReduceOp op) {
  check_scattered(input, output, op, size());
  const int count = count_of("reduce_scatter", output);
  if (count == 0) return std::make_unique<FinishedWork>();
  const StagedTensor source(input, StagedTensor::Use::kSend);
  const StagedTensor target(std::move(output), StagedTensor::Use::kReceive);
  const MPI_Datatype type = mpi_type(input.scalar_type());
  const MPI_Op mpi_op = thread_->half_sums().operation(op, input.scalar_type());
  auto operation =
      submit("reduce_scatter", input, name_of(op), source.ready(),
             [source, target, count, type, mpi_op, comm = comm_](MPI_Request* request) {
               return MPI_Ireduce_scatter_block(source.data(), target.data(), count, type, mpi_op,
                                                comm, request);
             });
  return std::make_unique<StagedWork>(thread_, std::move(operation), target);
}

void MpiCommunicator::barrier() {
  const auto operation =
      submit("barrier", at::Tensor(), "", nullptr,
             [comm = comm_](MPI_Request* request) { return MPI_Ibarrier(comm, request); });
  thread_->wait(*operation);
}

}  // namespace longship::comm
