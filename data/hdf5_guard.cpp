#include "data/hdf5_guard.h"

#include <hdf5.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <ctime>
#include <exception>
#include <fstream>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "data/error.h"

namespace longship::data {
namespace {

using std::chrono::seconds;

constexpr int kExitCode = 3;  // input data that cannot be used

// What a signal handler can reach.
constexpr std::array kBroken = {SIGSEGV, SIGBUS, SIGFPE};
std::array<char, 4352> last_words;  // longer than any path
size_t last_words_size = 0;
std::atomic<bool> stuck = false;
bool tells = true;

extern "C" void end_broken(int /*number*/) {
  if (tells && write(STDERR_FILENO, last_words.data(), last_words_size) < 0) _exit(kExitCode);
  _exit(kExitCode);
}

// The handlers for as long as HDF5 reads.
class BrokenAccess {
 public:
  explicit BrokenAccess(const std::string& path) {
    const std::string text = "longship: error: " + path +
                             ": HDF5 failed inside while reading it: the file is damaged; copy or "
                             "write it again\n";
    last_words_size = std::min(text.size(), last_words.size());
    std::memcpy(last_words.data(), text.data(), last_words_size);
    for (size_t i = 0; i < kBroken.size(); ++i) {
      struct sigaction action = {};
      action.sa_handler = end_broken;
      sigemptyset(&action.sa_mask);
      action.sa_flags = SA_ONSTACK;
      sigaction(kBroken[i], &action, &former_[i]);
    }
  }
  ~BrokenAccess() {
    for (size_t i = 0; i < kBroken.size(); ++i) sigaction(kBroken[i], &former_[i], nullptr);
  }
  BrokenAccess(const BrokenAccess&) = delete;
  BrokenAccess& operator=(const BrokenAccess&) = delete;

 private:
  std::array<struct sigaction, kBroken.size()> former_;
};

// The reading thread and what is known of it; outlives the caller where the thread does.
struct Reading {
  std::mutex mutex;
  std::condition_variable changed;
  bool ended = false;
  std::exception_ptr error;
  pid_t thread = 0;
  // A handler cannot run on a stack that has overflowed.
  alignas(64) std::array<char, 65536> handler_stack;
};

// Bytes that a thread has read by system calls; nothing where the system does not tell.
std::optional<int64_t> bytes_read(pid_t thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/io");
  std::string name;
  int64_t value = 0;
  while (file >> name >> value) {
    if (name == "rchar:") return value;
  }
  return std::nullopt;
}

seconds computed(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return seconds(time.tv_sec);
}

void run(const std::shared_ptr<Reading>& reading, const std::function<void()>& read) {
  stack_t stack = {};
  stack.ss_sp = reading->handler_stack.data();
  stack.ss_size = reading->handler_stack.size();
  sigaltstack(&stack, nullptr);
  {
    const std::lock_guard lock(reading->mutex);
    reading->thread = gettid();
  }
  std::exception_ptr error;
  try {
    read();
  } catch (...) {
    error = std::current_exception();
  }
  stack.ss_flags = SS_DISABLE;
  sigaltstack(&stack, nullptr);
  const std::lock_guard lock(reading->mutex);
  reading->error = error;
  reading->ended = true;
  reading->changed.notify_all();
}

}  // namespace

void guarded_hdf5(const std::string& path, std::function<void()> read, seconds patience) {
  // HDF5's own clean-up at exit would wait for a thread that was left behind.
  static const herr_t without_clean_up = H5dont_atexit();
  static_cast<void>(without_clean_up);
  const BrokenAccess handlers(path);
  const auto reading = std::make_shared<Reading>();
  std::thread thread([reading, read = std::move(read)] { run(reading, read); });

  clockid_t clock{};
  pthread_getcpuclockid(thread.native_handle(), &clock);
  std::unique_lock lock(reading->mutex);
  std::optional<int64_t> seen;
  seconds at_last_read(0);
  while (!reading->changed.wait_for(lock, seconds(1), [&] { return reading->ended; })) {
    const std::optional<int64_t> now = bytes_read(reading->thread);
    const seconds time = computed(clock);
    if (!now || now != seen) {
      seen = now;
      at_last_read = time;
    } else if (time - at_last_read >= patience) {
      stuck = true;
      thread.detach();
      throw DataError(path + ": HDF5 computes for " + std::to_string(patience.count()) +
                      " s without reading on: the file is damaged; copy or write it again");
    }
  }
  lock.unlock();
  thread.join();
  if (reading->error) std::rethrow_exception(reading->error);
}

bool hdf5_is_stuck() {
  return stuck;
}

void tell_broken_hdf5(bool tell) {
  tells = tell;
}

}  // namespace longship::data
