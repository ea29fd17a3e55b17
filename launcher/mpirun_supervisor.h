#pragma once

#include <chrono>
#include <csignal>
#include <functional>
#include <string>
#include <vector>

namespace longship::launcher {

struct SupervisorOptions {
  std::vector<std::string> command;      // mpirun and its arguments; command[0] is a path
  std::vector<std::string> restarted;    // the command for every later start
  std::vector<std::string> environment;  // "NAME=value", all of the child's
  int max_restarts = 0;
  std::chrono::milliseconds restart_delay{1000};
  // How long a killed mpirun may take to end before it is killed the hard way.
  std::chrono::milliseconds kill_patience{5000};
  // An mpirun that ends with code 1 sooner than this had no ranks to lose: it is not started again.
  std::chrono::milliseconds start_time{10000};
  std::function<void(const std::string& line)> say;  // messages for the user
};

// Why an end of mpirun is followed by a restart; "" when it is not. code: mpirun's, 128 + n when a
// signal ended mpirun itself; asked_to_stop: a signal was passed on; ran: the time since its start.
std::string restart_reason(int code, bool asked_to_stop, std::chrono::milliseconds ran,
                           std::chrono::milliseconds start_time);

// Runs mpirun in a process group of its own until it ends for good, and returns its exit code.
//   TERM, INT, HUP and USR1 become a USR1 for mpirun, which hands it to every rank: the training
//   writes a checkpoint and stops.
//   A second INT ends everything at once: TERM for mpirun, KILL after kill_patience; returns 130.
//   When this process dies, mpirun gets a USR1.
//   What mpirun writes is passed on; when nobody reads it any more, training goes on.
// Restarts mpirun as restart_reason() says. No process that it started is left when it returns.
// The calling thread must have these signals and CHLD blocked (BlockedSignals), so that none is
// lost. Throws std::system_error when mpirun cannot be started.
int supervise(const SupervisorOptions& options);

// Blocks the signals that supervise() waits for, from construction to destruction.
class BlockedSignals {
 public:
  BlockedSignals();
  ~BlockedSignals();
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t former_;
};

}  // namespace longship::launcher
