#pragma once

#include <array>
#include <csignal>

namespace longship::runtime {

// SIGUSR1, SIGTERM and SIGINT ask the run to save and end. The handler sets a flag and does nothing
// else (signal-safety(7)); whoever trains asks for the flag between steps. A second SIGINT has the
// default effect, at once. Restores the former handlers when destroyed. One at a time a process.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // The signal that came, 0 when none did.
  static int received();

 private:
  static constexpr std::array<int, 3> kSignals = {SIGUSR1, SIGTERM, SIGINT};
  std::array<struct sigaction, kSignals.size()> former_actions_;
};

}  // namespace longship::runtime
