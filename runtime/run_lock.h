#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "runtime/process_identity.h"

namespace longship::runtime {

// Who holds a run directory.
struct LockHolder {
  ProcessIdentity process;
  std::string started;  // UTC
  std::string nonce;    // tells two locks of one process apart

  bool operator==(const LockHolder&) const = default;
};

// "process 4711 on host n1 (Slurm job 99), since 2026-03-01T12:00:00Z".
std::string describe(const LockHolder& holder);

// One live job a run directory, kept by a file ".lock" in it; released by the destructor.
//
// Note [Locks on shared file systems]
// flock() is missing or local on many of the file systems that clusters share, so that the lock is
// a file that is made under a temporary name and then linked to its own: link() is atomic over NFS
// and never shows a half-written file. (Where there are no hard links, the file is created
// exclusively.) A holder that died is recognised:
//   - on the same host and in the same pid namespace, by its pid and start time, at once;
//   - in the same Slurm job with more restarts, at once: Slurm ends a job's life before the next;
//   - anywhere else, when it has not touched the file for kPatience. A thread of its own touches
//   it,
//     so that reading data or a long evaluation is no silence. Ages are differences of two stamps
//     of the file system itself, so that the clocks of hosts do not matter.
// A dead holder's file is renamed before the new one is linked. Should two jobs take over at once,
// the slower one finds that what it renamed is not what it judged, and puts it back.
class RunLock {
 public:
  static constexpr std::chrono::seconds kPatience{120};
  static constexpr std::chrono::seconds kHeartbeat{20};

  // Throws ConfigError naming the holder and what to do when a live job holds `folder`, or when the
  // lock cannot be written.
  explicit RunLock(const std::string& folder, ProcessIdentity self = this_process(),
                   std::chrono::milliseconds heartbeat = kHeartbeat);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

  // Costs nothing. False once another job has taken the lock, because this one was silent for
  // kPatience (suspended, for example): then it must stop writing. A file system that does not
  // answer is no such case.
  bool refresh() const;

  // What was taken over, for the log; "" in the common case.
  const std::string& note() const { return note_; }

 private:
  class Heartbeat;

  void acquire(const std::string& folder);
  bool create() const;
  void take_over(const LockHolder& dead);

  const pid_t owner_ = getpid();
  std::string path_;
  LockHolder self_;
  std::string note_;
  std::unique_ptr<Heartbeat> heartbeat_;
};

// The holder written in a lock file; nothing when there is no file, or one that is not readable as
// a lock.
std::optional<LockHolder> read_lock(const std::string& path);

}  // namespace longship::runtime
