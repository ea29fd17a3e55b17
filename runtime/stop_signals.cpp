#include "runtime/stop_signals.h"

#include <array>
#include <csignal>

namespace longship::runtime {
namespace {

// A handler can reach nothing but a variable of static storage.
volatile std::sig_atomic_t received_signal = 0;

extern "C" void note_signal(int number) { received_signal = number; }

constexpr std::array<int, 3> kSignals = {SIGUSR1, SIGTERM, SIGINT};
std::array<struct sigaction, 3> former_actions;

}  // namespace

StopSignals::StopSignals() {
  received_signal = 0;
  for (size_t i = 0; i < kSignals.size(); ++i) {
    struct sigaction action = {};
    action.sa_handler = note_signal;
    sigemptyset(&action.sa_mask);
    action.sa_flags = SA_RESTART;
    if (kSignals[i] == SIGINT) {
      action.sa_flags |= static_cast<int>(SA_RESETHAND);
    }
    sigaction(kSignals[i], &action, &former_actions[i]);
  }
}

StopSignals::~StopSignals() {
  for (size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], &former_actions[i], nullptr);
  }
}

int StopSignals::received() { return received_signal; }

}  // namespace longship::runtime
