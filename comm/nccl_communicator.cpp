#include "comm/nccl_communicator.h"

#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "comm/error.h"
#include "comm/finished_work.h"
#include "comm/host_name.h"
#include "comm/stream_mark.h"
#include "comm/tensor_checks.h"
#include "comm/text_collectives.h"

// Note [NCCL without blocking]
// NCCL's calls block by default, and one that waits for a rank that is gone blocks for ever. The
// communicator is therefore made non-blocking: a call that cannot end at once returns
// ncclInProgress, and we poll ncclCommGetAsyncError against the time limit. What is on a stream has
// no limit of its own: who waits for the stream keeps one (runtime/step_statistics.h). Once a call
// has failed the communicator is aborted, which takes its kernels off the GPU. Destruction, too, is
// polled, and an abort runs in a thread of its own that is left behind if it does not come back:
// ncclCommAbort can spin while captured graphs that hold the communicator still live.

namespace longship::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kTeardown{10000};
constexpr std::chrono::microseconds kPoll{50};

std::string text_of(ncclResult_t result, ncclComm_t comm) {
  std::string text = ncclGetErrorString(result);
  const char* detail = ncclGetLastError(comm);
  if (detail != nullptr && *detail != '\0') text += std::string(": ") + detail;
  return text;
}

ncclDataType_t nccl_type(at::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat:
      return ncclFloat32;
    case at::kDouble:
      return ncclFloat64;
    case at::kHalf:
      return ncclFloat16;
    case at::kBFloat16:
      return ncclBfloat16;
    case at::kInt:
      return ncclInt32;
    case at::kLong:
      return ncclInt64;
    case at::kByte:
      return ncclUint8;
    default:
      throw std::invalid_argument(std::string("NCCL has no type for ") + c10::toString(dtype));
  }
}

ncclRedOp_t nccl_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return ncclSum;
    case ReduceOp::kMax:
      return ncclMax;
    case ReduceOp::kMin:
      return ncclMin;
  }
  throw std::invalid_argument("unknown reduction");
}

// "GPU-" and 32 hexadecimal digits, as nvidia-smi writes it but for the dashes.
std::string device_uuid(int device) {
  cudaDeviceProp properties{};
  C10_CUDA_CHECK(cudaGetDeviceProperties(&properties, device));
  std::string text = "GPU-";
  for (const char byte : properties.uuid.bytes) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned char>(byte));
    text += digits;
  }
  return text;
}

// NCCL refuses two ranks on one GPU with a message about its insides; this one says what to do.
void check_one_rank_per_gpu(Communicator& host, int device) {
  const auto all = all_gather_text(host, device_uuid(device) + " of host " + host_name());
  std::map<std::string, size_t> taken;
  for (size_t r = 0; r < all.size(); ++r) {
    const auto [other, is_new] = taken.emplace(all[r], r);
    if (is_new) continue;
    std::ostringstream text;
    text
        << "ranks " << other->second << " and " << r << " both use " << all[r]
        << ", and NCCL takes one rank per GPU: start at most as many ranks per host as it has GPUs,"
        << " or set comm.backend=mpi";
    throw CommError(CommError::Kind::kSetup, text.str());
  }
}

// The handle, its limits and its end.
class NcclHandle {
 public:
  NcclHandle(ncclUniqueId id, int rank, int size, milliseconds timeout);
  ~NcclHandle();
  NcclHandle(const NcclHandle&) = delete;
  NcclHandle& operator=(const NcclHandle&) = delete;

  ncclComm_t get() const { return comm_; }
  // Waits until NCCL has taken a call that returned `result`. Throws CommError (kPeer).
  void settle(ncclResult_t result, const std::string& call);
  // Throws CommError (kPeer) when NCCL has met an error since.
  void check_health(const std::string& call);
  milliseconds timeout() const { return timeout_; }
  [[noreturn]] void fail(const std::string& call, const std::string& why);

 private:
  // Polls until the state is no longer "in progress" or the limit passes.
  ncclResult_t poll(milliseconds limit) const;
  void abort();

  ncclComm_t comm_ = nullptr;
  int rank_;
  milliseconds timeout_;
  bool failed_ = false;
};

NcclHandle::NcclHandle(ncclUniqueId id, int rank, int size, milliseconds timeout)
    : rank_(rank), timeout_(timeout) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  try {
    settle(ncclCommInitRankConfig(&comm_, size, id, rank, &config), "ncclCommInitRankConfig");
  } catch (...) {
    abort();
    throw;
  }
}

NcclHandle::~NcclHandle() {
  if (comm_ == nullptr) return;
  if (!failed_) {
    ncclResult_t result = ncclCommFinalize(comm_);
    if (result == ncclInProgress) result = poll(kTeardown);
    if (result == ncclSuccess && ncclCommDestroy(comm_) == ncclSuccess) return;
  }
  abort();
}

ncclResult_t NcclHandle::poll(milliseconds limit) const {
  const auto begin = steady_clock::now();
  for (;;) {
    ncclResult_t state = ncclInProgress;
    const ncclResult_t asked = ncclCommGetAsyncError(comm_, &state);
    if (asked != ncclSuccess) return asked;
    const auto waited = steady_clock::now() - begin;
    if (state != ncclInProgress || waited > limit) return state;
    // A launch takes some ten microseconds, which a sleep would double.
    if (waited < milliseconds(1)) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(kPoll);
    }
  }
}

void NcclHandle::settle(ncclResult_t result, const std::string& call) {
  if (result == ncclInProgress) result = poll(timeout_);
  if (result == ncclSuccess) return;
  if (result != ncclInProgress) fail(call, text_of(result, comm_));
  std::ostringstream why;
  why << "did not end within " << std::chrono::duration<double>(timeout_).count()
      << " s: another rank stopped or the network failed";
  fail(call, why.str());
}

void NcclHandle::check_health(const std::string& call) {
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = ncclCommGetAsyncError(comm_, &state);
  if (asked != ncclSuccess) state = asked;
  if (state != ncclSuccess && state != ncclInProgress) fail(call, text_of(state, comm_));
}

void NcclHandle::fail(const std::string& call, const std::string& why) {
  failed_ = true;
  throw CommError(CommError::Kind::kPeer, call + " on rank " + std::to_string(rank_) + " of host " +
                                              host_name() + ": " + why);
}

// See Note [NCCL without blocking].
void NcclHandle::abort() {
  if (comm_ == nullptr) return;
  struct Done {
    std::mutex mutex;
    std::condition_variable changed;
    bool value = false;
  };
  auto done = std::make_shared<Done>();
  std::thread([done, comm = comm_] {
    ncclCommAbort(comm);
    const std::lock_guard lock(done->mutex);
    done->value = true;
    done->changed.notify_all();
  }).detach();
  std::unique_lock lock(done->mutex);
  done->changed.wait_for(lock, kTeardown, [&] { return done->value; });
  comm_ = nullptr;
}

class NcclWork final : public Work {
 public:
  NcclWork(std::shared_ptr<NcclHandle> handle, std::string name, c10::Device device)
      : handle_(std::move(handle)), name_(std::move(name)), device_(device) {
    finished_.record(device_);
  }
  ~NcclWork() override {
    if (waited_) return;
    try {  // the memory may be freed next, in the order of the current stream
      finished_.block(device_);
    } catch (const std::exception&) {  // the device is lost, and with it what was on it
    }
  }
  NcclWork(const NcclWork&) = delete;
  NcclWork& operator=(const NcclWork&) = delete;

  bool done() override { return finished_.reached(); }
  void wait() override {
    waited_ = true;
    handle_->check_health(name_);
    finished_.block(device_);
  }

 private:
  std::shared_ptr<NcclHandle> handle_;
  std::string name_;
  c10::Device device_;
  StreamMark finished_;
  bool waited_ = false;
};

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(std::shared_ptr<NcclHandle> handle, int rank, int size, int device)
      : handle_(std::move(handle)),
        rank_(rank),
        size_(size),
        device_(c10::kCUDA, static_cast<c10::DeviceIndex>(device)),
        token_(at::zeros({1}, at::TensorOptions().dtype(at::kFloat).device(device_))) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string backend() const override { return "nccl"; }
  bool capturable() const override { return true; }

  std::unique_ptr<Work> all_reduce_async(at::Tensor tensor, ReduceOp op) override {
    check_reduced("all_reduce", tensor, op);
    check_device("all_reduce", tensor);
    if (tensor.numel() == 0) return std::make_unique<FinishedWork>();
    return enqueue("all_reduce", [&](cudaStream_t stream) {
      return ncclAllReduce(tensor.data_ptr(), tensor.data_ptr(), count(tensor),
                           nccl_type(tensor.scalar_type()), nccl_op(op), handle_->get(), stream);
    });
  }

  void broadcast(at::Tensor tensor, int root) override {
    check_moved("broadcast", tensor);
    check_root("broadcast", root, size_);
    check_device("broadcast", tensor);
    if (tensor.numel() == 0) return;
    enqueue("broadcast", [&](cudaStream_t stream) {
      return ncclBroadcast(tensor.data_ptr(), tensor.data_ptr(), count(tensor),
                           nccl_type(tensor.scalar_type()), root, handle_->get(), stream);
    })->wait();
  }

  void all_gather(const at::Tensor& input, at::Tensor output) override {
    check_gathered(input, output, size_);
    check_device("all_gather", input);
    if (input.numel() == 0) return;
    enqueue("all_gather", [&](cudaStream_t stream) {
      return ncclAllGather(input.data_ptr(), output.data_ptr(), count(input),
                           nccl_type(input.scalar_type()), handle_->get(), stream);
    })->wait();
  }

  std::unique_ptr<Work> reduce_scatter_async(const at::Tensor& input, at::Tensor output,
                                             ReduceOp op) override {
    check_scattered(input, output, op, size_);
    check_device("reduce_scatter", input);
    if (output.numel() == 0) return std::make_unique<FinishedWork>();
    return enqueue("reduce_scatter", [&](cudaStream_t stream) {
      return ncclReduceScatter(input.data_ptr(), output.data_ptr(), count(output),
                               nccl_type(input.scalar_type()), nccl_op(op), handle_->get(), stream);
    });
  }

  // Unlike the others it holds the host, for a barrier is for what the host does next.
  void barrier() override {
    const auto work = all_reduce_async(token_, ReduceOp::kMax);
    const auto end = steady_clock::now() + handle_->timeout();
    while (!work->done()) {
      handle_->check_health("barrier");
      if (steady_clock::now() > end) {
        handle_->fail("barrier", "did not end in time: another rank stopped or the network failed");
      }
      std::this_thread::sleep_for(kPoll);
    }
  }

 private:
  static size_t count(const at::Tensor& tensor) { return static_cast<size_t>(tensor.numel()); }

  void check_device(const char* collective, const at::Tensor& tensor) const {
    if (tensor.device() == device_) return;
    throw std::invalid_argument(std::string(collective) + ": the tensor is on " +
                                tensor.device().str() + ", this communicator on " + device_.str());
  }

  // Puts a collective on the current stream.
  template <typename Call>
  std::unique_ptr<Work> enqueue(const char* collective, const Call& call) {
    const c10::cuda::CUDAGuard guard(device_);
    const std::string name = std::string(collective) + " #" + std::to_string(next_++);
    handle_->settle(call(c10::cuda::getCurrentCUDAStream(device_.index()).stream()), name);
    return std::make_unique<NcclWork>(handle_, name, device_);
  }

  std::shared_ptr<NcclHandle> handle_;
  const int rank_;
  const int size_;
  const c10::Device device_;
  at::Tensor token_;
  uint64_t next_ = 0;
};

// The id of a new communicator, from rank 0 to all; rank 0's error too.
ncclUniqueId agree_on_id(Communicator& host) {
  ncclUniqueId id{};
  std::string message;
  if (host.rank() == 0) {
    const ncclResult_t result = ncclGetUniqueId(&id);
    message =
        result == ncclSuccess
            ? std::string("=") + std::string(id.internal, sizeof id.internal)
            : "ncclGetUniqueId on rank 0 of host " + host_name() + ": " + text_of(result, nullptr);
  }
  message = broadcast_text(host, message, 0);
  if (message.front() != '=') throw CommError(CommError::Kind::kSetup, message);
  std::memcpy(id.internal, message.data() + 1, sizeof id.internal);
  return id;
}

}  // namespace

std::unique_ptr<Communicator> make_nccl_communicator(Communicator& host, int device,
                                                     std::chrono::seconds timeout) {
  check_one_rank_per_gpu(host, device);
  const ncclUniqueId id = agree_on_id(host);
  const c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(device));

  std::shared_ptr<NcclHandle> handle;
  std::string fault;
  try {
    handle = std::make_shared<NcclHandle>(id, host.rank(), host.size(), timeout);
  } catch (const CommError& error) {
    fault = error.what();
  }
  // All ranks fail if one does, with the words of the first.
  for (const auto& text : all_gather_text(host, fault)) {
    if (!text.empty()) throw CommError(CommError::Kind::kSetup, text);
  }
  return std::make_unique<NcclCommunicator>(std::move(handle), host.rank(), host.size(), device);
}

std::string nccl_version() {
  int number = 0;
  if (ncclGetVersion(&number) != ncclSuccess) {
    throw CommError(CommError::Kind::kSetup, "ncclGetVersion failed: NCCL is not usable");
  }
  // major * 10000 + minor * 100 + patch since 2.9.
  return std::to_string(number / 10000) + "." + std::to_string(number / 100 % 100) + "." +
         std::to_string(number % 100);
}

}  // namespace longship::comm
