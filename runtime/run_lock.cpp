#include "runtime/run_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <nlohmann/json.hpp>
#include <system_error>
#include <thread>
#include <utility>

#include "runtime/atomic_file.h"
#include "runtime/error.h"
#include "runtime/file_descriptor.h"

namespace longship::runtime {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::string to_text(const LockHolder& holder) {
  const ProcessIdentity& process = holder.process;
  const json text = {{"host", process.host},
                     {"pid", process.pid},
                     {"boot", process.boot},
                     {"pid_namespace", process.pid_namespace},
                     {"start_ticks", process.start_ticks},
                     {"slurm_job", process.slurm_job},
                     {"slurm_restarts", process.slurm_restarts},
                     {"started", holder.started},
                     {"nonce", holder.nonce}};
  return text.dump() + "\n";
}

// Writes a new file and says whether that went well; errno tells why not.
bool write_new(const std::string& path, const std::string& text) {
  constexpr mode_t kUmaskDecides = 0666;
  FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kUmaskDecides));
  if (!file.valid()) return false;
  return write_all(file.get(), text) && fsync(file.get()) == 0 && file.close();
}

// Between the file's stamp and the file system's present, which a new file's stamp tells.
std::optional<std::chrono::seconds> age(const std::string& path) {
  const std::string probe = temporary_name(path);
  struct stat present {};
  struct stat file {};
  const bool known = write_new(probe, "\n") && ::stat(probe.c_str(), &present) == 0;
  ::unlink(probe.c_str());
  if (!known || ::stat(path.c_str(), &file) != 0) return std::nullopt;
  return std::chrono::seconds(present.st_mtim.tv_sec - file.st_mtim.tv_sec);
}

// Whether the holder certainly runs no more, whatever the age of its last sign of life.
bool is_known_dead(const ProcessIdentity& holder, const ProcessIdentity& self) {
  if (!holder.slurm_job.empty() && holder.slurm_job == self.slurm_job &&
      holder.slurm_restarts < self.slurm_restarts) {
    return true;
  }
  return shares_pids(holder, self) && !is_running(holder);
}

bool is_known_alive(const ProcessIdentity& holder, const ProcessIdentity& self) {
  return shares_pids(holder, self) && is_running(holder);
}

}  // namespace

std::string describe(const LockHolder& holder) {
  const ProcessIdentity& process = holder.process;
  std::string text = fmt::format("process {} on host {}", process.pid, process.host);
  if (!process.slurm_job.empty()) text += fmt::format(" (Slurm job {})", process.slurm_job);
  return text + ", since " + holder.started;
}

std::optional<LockHolder> read_lock(const std::string& path) {
  std::ifstream stream(path);
  if (!stream) return std::nullopt;
  const std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  const json parsed = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object()) return std::nullopt;
  try {
    LockHolder holder;
    parsed.at("host").get_to(holder.process.host);
    parsed.at("pid").get_to(holder.process.pid);
    parsed.at("boot").get_to(holder.process.boot);
    parsed.at("pid_namespace").get_to(holder.process.pid_namespace);
    parsed.at("start_ticks").get_to(holder.process.start_ticks);
    parsed.at("slurm_job").get_to(holder.process.slurm_job);
    parsed.at("slurm_restarts").get_to(holder.process.slurm_restarts);
    parsed.at("started").get_to(holder.started);
    parsed.at("nonce").get_to(holder.nonce);
    return holder;
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

// Touches the lock file until it is destroyed or finds another job's lock in its place.
class RunLock::Heartbeat {
 public:
  Heartbeat(std::string path, LockHolder self, std::chrono::milliseconds interval)
      : path_(std::move(path)), self_(std::move(self)), interval_(interval) {
    // The process's signals are for its other threads.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread([this] { run(); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  ~Heartbeat() {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  bool lost() const { return lost_; }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, interval_, [this] { return stopped_; })) {
      const std::optional<LockHolder> holder = read_lock(path_);
      if (holder && *holder != self_) {
        lost_ = true;
        return;
      }
      if (holder) utimensat(AT_FDCWD, path_.c_str(), nullptr, 0);
    }
  }

  const std::string path_;
  const LockHolder self_;
  const std::chrono::milliseconds interval_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopped_ = false;  // guarded by mutex_
  std::atomic<bool> lost_ = false;
  std::thread thread_;
};

RunLock::RunLock(const std::string& folder, ProcessIdentity self,
                 std::chrono::milliseconds heartbeat)
    : path_((fs::path(folder) / ".lock").string()) {
  self_.process = std::move(self);
  self_.started = utc_now();
  self_.nonce = fs::path(temporary_name(path_)).filename().string();
  acquire(folder);
  heartbeat_ = std::make_unique<Heartbeat>(path_, self_, heartbeat);
}

void RunLock::acquire(const std::string& folder) {
  // Each round either ends or saw the file change under its hands.
  constexpr int kRounds = 5;
  for (int round = 0; round < kRounds; ++round) {
    if (create()) return;
    const std::optional<LockHolder> holder = read_lock(path_);
    std::error_code error;
    if (!holder && !fs::exists(path_, error)) continue;  // released meanwhile
    const std::optional<std::chrono::seconds> since = age(path_);
    const bool silent = since && *since > kPatience;
    if (holder ? is_known_dead(holder->process, self_.process) ||
                     (silent && !is_known_alive(holder->process, self_.process))
               : silent) {
      take_over(holder.value_or(LockHolder{}));
      continue;
    }
    const std::string who = holder ? describe(*holder) : "a job that cannot be told from its lock";
    std::string advice = "wait for its end, stop it, or give this run another run.name";
    if (holder && !is_known_alive(holder->process, self_.process) && since) {
      advice += fmt::format("; should that process be dead, the directory is free in {} s",
                            std::max<int64_t>(1, (kPatience - *since).count() + 1));
    }
    throw ConfigError(
        fmt::format("the run directory '{}' is in use by {}: {}", folder, who, advice));
  }
  throw ConfigError(fmt::format(
      "the run directory '{}' is being taken by several jobs at once: start one of them", folder));
}

bool RunLock::create() const {
  const std::string text = to_text(self_);
  const std::string temporary = temporary_name(path_);
  const auto fail = [&](int error) {
    ::unlink(temporary.c_str());
    return ConfigError(fmt::format("cannot write the lock '{}' on host {}: {} (errno {})", path_,
                                   self_.process.host, std::generic_category().message(error),
                                   error));
  };
  if (!write_new(temporary, text)) throw fail(errno);
  const bool linked = ::link(temporary.c_str(), path_.c_str()) == 0;
  const int error = errno;
  // NFS may have linked although the answer was lost; two links tell.
  struct stat file {};
  const bool two_links = ::stat(temporary.c_str(), &file) == 0 && file.st_nlink == 2;
  ::unlink(temporary.c_str());
  if (linked || two_links) return true;
  if (error == EEXIST) return false;
  if (error != EPERM && error != ENOTSUP && error != EMLINK && error != ENOSYS) throw fail(error);
  if (write_new(path_, text)) return true;
  if (errno == EEXIST) return false;
  throw fail(errno);
}

void RunLock::take_over(const LockHolder& dead) {
  const std::string aside = temporary_name(path_);
  if (std::rename(path_.c_str(), aside.c_str()) != 0) return;  // another job was quicker
  const LockHolder renamed = read_lock(aside).value_or(LockHolder{});
  // A quicker job's new lock was caught: give it back, unless a third one exists by now.
  if (renamed != dead && ::link(aside.c_str(), path_.c_str()) != 0 && errno != EEXIST) {
    std::rename(aside.c_str(), path_.c_str());
    return;
  }
  ::unlink(aside.c_str());
  if (renamed == dead) {
    note_ = dead.nonce.empty()
                ? "took over the run directory from a lock that cannot be read"
                : "took over the run directory from " + describe(dead) + ", which has ended";
  }
}

RunLock::~RunLock() {
  if (owner_ != getpid()) {
    // A forked child has a copy of this object but neither the lock nor the thread to be joined.
    static_cast<void>(heartbeat_.release());
    return;
  }
  heartbeat_.reset();
  if (read_lock(path_) == self_) ::unlink(path_.c_str());
}

bool RunLock::refresh() const {
  return !heartbeat_->lost();
}

}  // namespace longship::runtime
