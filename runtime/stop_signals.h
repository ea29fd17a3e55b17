#pragma once

#include <csignal>
#include <cstddef>
#include <memory>

namespace longship::runtime {

// SIGUSR1, SIGTERM, SIGINT and SIGHUP (unless it is ignored, as under nohup) ask the run to save
// and end. The handler sets a flag and does nothing else (signal-safety(7)); whoever trains asks
// for the flag between steps. A second SIGINT has the default effect, at once. They are let through
// to the calling thread, in case whoever started the program had them blocked. Restores what was
// before when destroyed. May be nested; a signal that came is forgotten when the outermost one
// begins.
//
// Note [A stack for signal handlers]
// oneDNN's recurrent kernels use the stack pointer for data of their own, so that a handler's frame
// on the thread's normal stack lands in the heap (seen with LibTorch 2.11: one stop in two ended in
// a crash). The handlers run on a stack of their own, in the thread that makes this object; Linux
// gives signals that are sent to a process to its main thread first, so that thread should be it.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // The signal that came, 0 when none did.
  static int received();

 private:
  static constexpr size_t kStackBytes = 64 * 1024;

  sigset_t were_blocked_;
  std::unique_ptr<char[]> stack_;  // null where the thread has such a stack already
};

}  // namespace longship::runtime
