#include "runtime/stop_signals.h"

#include <array>
#include <atomic>
#include <csignal>

namespace longship::runtime {
namespace {

// A handler can reach nothing but a variable of static storage.
std::atomic<int> received_signal = 0;
std::atomic<int> alive = 0;
// Of the outermost object, to be put back by the last.
constexpr std::array<int, 4> kSignals = {SIGUSR1, SIGTERM, SIGINT, SIGHUP};
std::array<struct sigaction, kSignals.size()> former_actions;
static_assert(std::atomic<int>::is_always_lock_free);

extern "C" void note_signal(int number) {
  received_signal = number;
}

void install_handlers() {
  received_signal = 0;
  for (size_t i = 0; i < kSignals.size(); ++i) {
    struct sigaction action = {};
    action.sa_handler = note_signal;
    sigemptyset(&action.sa_mask);
    action.sa_flags = SA_RESTART | SA_ONSTACK;
    if (kSignals[i] == SIGINT) {
      action.sa_flags |= static_cast<int>(SA_RESETHAND);
    }
    sigaction(kSignals[i], &action, &former_actions[i]);
    if (kSignals[i] == SIGHUP && former_actions[i].sa_handler == SIG_IGN) {
      sigaction(SIGHUP, &former_actions[i], nullptr);
    }
  }
}

}  // namespace

StopSignals::StopSignals() {
  sigset_t blocked;
  pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  sigemptyset(&were_blocked_);
  for (const int number : kSignals) {
    if (sigismember(&blocked, number) == 1) sigaddset(&were_blocked_, number);
  }
  stack_t current = {};
  if (sigaltstack(nullptr, &current) == 0 && (current.ss_flags & SS_DISABLE) != 0) {
    stack_ = std::make_unique<char[]>(kStackBytes);
    stack_t stack = {};
    stack.ss_sp = stack_.get();
    stack.ss_size = kStackBytes;
    sigaltstack(&stack, nullptr);
  }
  // An inner one finds the handlers in place; to install them anew would bring back that of an
  // interrupt that has come already.
  if (alive++ == 0) install_handlers();
  pthread_sigmask(SIG_UNBLOCK, &were_blocked_, nullptr);
}

StopSignals::~StopSignals() {
  pthread_sigmask(SIG_BLOCK, &were_blocked_, nullptr);
  if (--alive == 0) {
    for (size_t i = 0; i < kSignals.size(); ++i) {
      sigaction(kSignals[i], &former_actions[i], nullptr);
    }
  }
  if (stack_) {
    stack_t none = {};
    none.ss_flags = SS_DISABLE;
    sigaltstack(&none, nullptr);
  }
}

int StopSignals::received() {
  return received_signal;
}

}  // namespace longship::runtime
