#include "comm/mpi_thread.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#include "comm/error.h"
#include "comm/host_name.h"

namespace longship::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kFarewell{5000};       // for the last barrier, and then for MPI_Finalize
constexpr milliseconds kAbortPatience{5000};  // for MPI_Abort to end the process

void check_setup(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  throw CommError(CommError::Kind::kSetup,
                  std::string(call) + " on host " + host_name() + ": " + mpi_error_text(code));
}

// See Note [One MPI thread].
class Backoff {
 public:
  void reset() { since_ = steady_clock::now(); }
  // How long to sleep now; zero means to go on at once, perhaps after giving way to others.
  std::chrono::microseconds pause() const {
    const auto idle = steady_clock::now() - since_;
    if (idle < std::chrono::microseconds(500)) {
      if (idle >= std::chrono::microseconds(20)) std::this_thread::yield();
      return std::chrono::microseconds(0);
    }
    return idle < milliseconds(5) ? std::chrono::microseconds(20) : std::chrono::microseconds(100);
  }

 private:
  steady_clock::time_point since_ = steady_clock::now();
};

// Nodes are numbered in the order of their lowest ranks.
void find_nodes(MpiWorld& world) {
  MPI_Comm node = MPI_COMM_NULL;
  check_setup(
      MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, world.rank, MPI_INFO_NULL, &node),
      "MPI_Comm_split_type");
  check_setup(MPI_Comm_set_errhandler(node, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check_setup(MPI_Comm_rank(node, &world.local_rank), "MPI_Comm_rank");
  check_setup(MPI_Comm_size(node, &world.local_size), "MPI_Comm_size");
  int lowest = world.rank;
  check_setup(MPI_Bcast(&lowest, 1, MPI_INT, 0, node), "MPI_Bcast");
  check_setup(MPI_Comm_free(&node), "MPI_Comm_free");

  std::vector<int> lowest_of(static_cast<size_t>(world.size));
  check_setup(MPI_Allgather(&lowest, 1, MPI_INT, lowest_of.data(), 1, MPI_INT, MPI_COMM_WORLD),
              "MPI_Allgather");
  std::sort(lowest_of.begin(), lowest_of.end());
  lowest_of.erase(std::unique(lowest_of.begin(), lowest_of.end()), lowest_of.end());
  world.node_count = static_cast<int>(lowest_of.size());
  const auto own = std::lower_bound(lowest_of.begin(), lowest_of.end(), lowest);
  world.node = static_cast<int>(own - lowest_of.begin());
}

MpiWorld start_mpi() {
  int provided = MPI_THREAD_SINGLE;
  const int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
  check_setup(code, "MPI_Init_thread");
  if (provided < MPI_THREAD_FUNNELED) {
    MPI_Finalize();
    throw CommError(CommError::Kind::kSetup,
                    "this MPI library offers no MPI_THREAD_FUNNELED, which the MPI thread needs: "
                    "use an MPI library built with thread support");
  }
  check_setup(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN),
              "MPI_Comm_set_errhandler");
  MpiWorld world;
  check_setup(MPI_Comm_rank(MPI_COMM_WORLD, &world.rank), "MPI_Comm_rank");
  check_setup(MPI_Comm_size(MPI_COMM_WORLD, &world.size), "MPI_Comm_size");
  world.host = host_name();

  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING + 1> version{};
  int length = 0;
  check_setup(MPI_Get_library_version(version.data(), &length), "MPI_Get_library_version");
  world.library_version.assign(version.data(), static_cast<size_t>(length));
  // Some libraries count the terminating zero.
  world.library_version = world.library_version.substr(
      0, world.library_version.find_first_of(std::string_view("\n\0", 2)));
  find_nodes(world);
  return world;
}

}  // namespace

struct MpiThread::State {
  using Operation = std::shared_ptr<MpiOperation>;
  enum class Order { kRun, kFinalize, kLeave, kAbort };

  // Guarded by mutex.
  mutable std::mutex mutex;
  std::condition_variable for_thread;
  std::condition_variable for_callers;
  std::vector<std::pair<int, Operation>> inbox;
  Order order = Order::kRun;
  int abort_code = 0;
  int queues = 0;
  bool started = false;
  bool ended = false;
  std::exception_ptr start_error;

  std::atomic<bool> broken{false};

  // Written before `started`, then constant.
  MpiWorld world;
  std::optional<HalfSums> half_sums;

  // Of the MPI thread.
  std::map<int, std::deque<Operation>> waiting;  // by queue
  std::vector<Operation> active;

  void run();
  void loop();
  bool start_ready();
  bool poll_active();
  void finish(const Operation& operation, std::string error);
  std::string where() const {
    return "rank " + std::to_string(world.rank) + " of host " + world.host;
  }
};

void MpiThread::State::run() {
  try {
    MpiWorld found = start_mpi();
    const std::lock_guard lock(mutex);
    world = std::move(found);
    half_sums.emplace();
  } catch (...) {
    start_error = std::current_exception();
  }
  {
    const std::lock_guard lock(mutex);
    started = true;
    for_callers.notify_all();
  }
  if (!start_error) loop();
  const std::lock_guard lock(mutex);
  ended = true;
  for_callers.notify_all();
}

void MpiThread::State::loop() {
  Backoff backoff;
  Order now = Order::kRun;
  for (;;) {
    {
      const bool pending = !active.empty() || !waiting.empty();
      const auto pause = pending ? backoff.pause() : std::chrono::microseconds(0);
      std::unique_lock lock(mutex);
      const auto called = [&] { return order != Order::kRun || !inbox.empty(); };
      if (!pending) {
        for_thread.wait(lock, called);
      } else if (pause.count() > 0) {
        for_thread.wait_for(lock, pause, called);
      }
      if (!inbox.empty()) backoff.reset();
      for (auto& [queue, operation] : inbox) waiting[queue].push_back(std::move(operation));
      inbox.clear();
      now = order;
    }
    if (now != Order::kRun) break;
    const bool any_started = start_ready();
    const bool any_finished = poll_active();
    if (any_started || any_finished) backoff.reset();
  }
  if (now == Order::kAbort) MPI_Abort(MPI_COMM_WORLD, abort_code);
  half_sums.reset();
  if (now == Order::kFinalize) MPI_Finalize();
}

bool MpiThread::State::start_ready() {
  bool any = false;
  for (auto queue = waiting.begin(); queue != waiting.end();) {
    auto& operations = queue->second;
    while (!operations.empty()) {
      const Operation operation = operations.front();
      try {
        if (operation->ready && !operation->ready()) break;
        operations.pop_front();
        any = true;
        const int code = operation->start(&operation->request);
        if (code != MPI_SUCCESS) {
          finish(operation, mpi_error_text(code));
        } else if (operation->request == MPI_REQUEST_NULL) {
          finish(operation, "");
        } else {
          active.push_back(operation);
        }
      } catch (const std::exception& error) {  // an event that cannot be queried
        if (!operations.empty() && operations.front() == operation) operations.pop_front();
        finish(operation, error.what());
      }
    }
    queue = operations.empty() ? waiting.erase(queue) : std::next(queue);
  }
  return any;
}

bool MpiThread::State::poll_active() {
  const auto before = active.size();
  std::erase_if(active, [this](const Operation& operation) {
    int flag = 0;
    const int code = MPI_Test(&operation->request, &flag, MPI_STATUS_IGNORE);
    if (code == MPI_SUCCESS && flag == 0) return false;
    finish(operation, code == MPI_SUCCESS ? "" : mpi_error_text(code));
    return true;
  });
  return active.size() < before;
}

void MpiThread::State::finish(const Operation& operation, std::string error) {
  // The closures hold tensors, which the caller may free as soon as it sees the end.
  operation->ready = nullptr;
  operation->start = nullptr;
  if (!error.empty()) {
    error = operation->name + " failed on " + where() + ": " + error;
    broken = true;
  }
  const std::lock_guard lock(mutex);
  operation->error = std::move(error);
  operation->finished = true;
  for_callers.notify_all();
}

MpiThread::MpiThread(milliseconds timeout) : state_(std::make_shared<State>()), timeout_(timeout) {
  std::thread([state = state_] { state->run(); }).detach();
  std::unique_lock lock(state_->mutex);
  if (!state_->for_callers.wait_for(lock, timeout, [this] { return state_->started; })) {
    state_->broken = true;
    throw CommError(CommError::Kind::kPeer,
                    "MPI on host " + host_name() + " did not start within " +
                        std::to_string(timeout.count() / 1000) +
                        " s: another rank was not started or does not answer");
  }
  if (state_->start_error) std::rethrow_exception(state_->start_error);
}

MpiThread::~MpiThread() {
  auto order = State::Order::kLeave;
  if (!broken()) {
    try {
      const auto farewell = submit(make_queue(), "last barrier", nullptr, [](MPI_Request* request) {
        return MPI_Ibarrier(MPI_COMM_WORLD, request);
      });
      wait(*farewell, kFarewell);
      order = State::Order::kFinalize;
    } catch (const std::exception&) {  // a rank is gone: see the class comment
    }
  }
  std::unique_lock lock(state_->mutex);
  state_->order = order;
  state_->for_thread.notify_all();
  state_->for_callers.wait_for(lock, kFarewell, [this] { return state_->ended; });
}

const MpiWorld& MpiThread::world() const {
  return state_->world;
}
const HalfSums& MpiThread::half_sums() const {
  return *state_->half_sums;
}
bool MpiThread::broken() const {
  return state_->broken;
}

int MpiThread::make_queue() {
  const std::lock_guard lock(state_->mutex);
  return state_->queues++;
}

std::shared_ptr<MpiOperation> MpiThread::submit(int queue, std::string name,
                                                std::function<bool()> ready,
                                                std::function<int(MPI_Request*)> start) {
  auto operation = std::make_shared<MpiOperation>();
  operation->name = std::move(name);
  operation->ready = std::move(ready);
  operation->start = std::move(start);
  const std::lock_guard lock(state_->mutex);
  state_->inbox.emplace_back(queue, operation);
  state_->for_thread.notify_all();
  return operation;
}

bool MpiThread::finished(const MpiOperation& operation) const {
  const std::lock_guard lock(state_->mutex);
  return operation.finished;
}

void MpiThread::wait(const MpiOperation& operation) {
  wait(operation, timeout_);
}

void MpiThread::wait(const MpiOperation& operation, milliseconds limit) {
  std::unique_lock lock(state_->mutex);
  if (!state_->for_callers.wait_for(lock, limit, [&] { return operation.finished; })) {
    state_->broken = true;
    std::ostringstream text;
    text << operation.name << " on " << state_->where() << " did not end within "
         << std::chrono::duration<double>(limit).count()
         << " s: another rank stopped or the network failed";
    throw CommError(CommError::Kind::kPeer, text.str());
  }
  if (!operation.error.empty()) throw CommError(CommError::Kind::kPeer, operation.error);
}

void MpiThread::abort(int code) {
  {
    const std::lock_guard lock(state_->mutex);
    state_->order = State::Order::kAbort;
    state_->abort_code = code;
    state_->for_thread.notify_all();
  }
  // The MPI thread may itself be stuck in a call; mpirun ends the others when this process ends.
  std::this_thread::sleep_for(kAbortPatience);
  _exit(code);
}

}  // namespace longship::comm
