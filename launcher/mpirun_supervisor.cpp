#include "launcher/mpirun_supervisor.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <thread>

#include "launcher/output_pump.h"

namespace longship::launcher {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::array kStopSignals = {SIGTERM, SIGINT, SIGHUP, SIGUSR1};
constexpr int kKilledByUser = 128 + SIGINT;
constexpr int kStopped = 75;

sigset_t waited_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : kStopSignals) sigaddset(&signals, number);
  sigaddset(&signals, SIGCHLD);
  return signals;
}

[[noreturn]] void throw_errno(int error, const std::string& what) {
  throw std::system_error(error, std::generic_category(), what);
}

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> result;
  result.reserve(strings.size() + 1);
  for (const std::string& string : strings) result.push_back(const_cast<char*>(string.c_str()));
  result.push_back(nullptr);
  return result;
}

struct Outputs {
  OutputPump standard{STDOUT_FILENO};
  OutputPump error{STDERR_FILENO};
};

// The child's part between fork and exec: only what is safe after a fork of several threads. Writes
// errno to `report` when it fails.
[[noreturn]] void become(char* const* command, char* const* environment, pid_t parent, int report,
                         const Outputs& outputs) {
  // Its own group, so that the terminal's Ctrl-C reaches the supervisor alone.
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGUSR1);
  if (getppid() != parent) _exit(127);  // the parent died before prctl
  // As a background group mpirun may not read from the terminal: it would be stopped.
  const int null = open("/dev/null", O_RDONLY);
  if (null >= 0) dup2(null, STDIN_FILENO);
  dup2(outputs.standard.write_end(), STDOUT_FILENO);
  dup2(outputs.error.write_end(), STDERR_FILENO);
  // Longship ignores PIPE, which exec would hand on to mpirun.
  signal(SIGPIPE, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execve(command[0], command, environment);
  const int error = errno;
  if (write(report, &error, sizeof error) < 0) _exit(126);
  _exit(127);
}

pid_t start(const std::vector<std::string>& command, const std::vector<std::string>& environment,
            const Outputs& outputs) {
  std::array<int, 2> report{};
  if (pipe2(report.data(), O_CLOEXEC) != 0) throw_errno(errno, "pipe2");
  const std::vector<char*> words = pointers(command);
  const std::vector<char*> variables = pointers(environment);
  const pid_t parent = getpid();
  const pid_t child = fork();
  const int fork_error = errno;
  if (child == 0) become(words.data(), variables.data(), parent, report[1], outputs);
  close(report[1]);
  int error = 0;
  const ssize_t bytes = child > 0 ? read(report[0], &error, sizeof error) : 0;
  close(report[0]);
  if (child < 0) throw_errno(fork_error, "fork");
  if (bytes == static_cast<ssize_t>(sizeof error)) {
    waitpid(child, nullptr, 0);
    throw_errno(error, "cannot start " + command[0]);
  }
  return child;
}

std::vector<pid_t> children() {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream file(entry.path() / "stat");
    std::string stat;
    std::getline(file, stat);
    // The command's name in parentheses may hold anything; the state and the parent follow.
    const size_t close_mark = stat.rfind(')');
    if (close_mark == std::string::npos) continue;
    std::istringstream rest(stat.substr(close_mark + 1));
    char state = 0;
    pid_t parent = 0;
    pid_t child = 0;
    if (rest >> state >> parent && parent == getpid() &&
        std::from_chars(name.data(), name.data() + name.size(), child).ec == std::errc()) {
      found.push_back(child);
    }
  }
  return found;
}

// Ranks whose mpirun was killed are this process's children now (it is their subreaper). They
// notice the loss by themselves, unless they are stuck. One that the system cannot end either, in a
// call to a file system or a driver that hangs, is left behind and told.
void end_orphans(const SupervisorOptions& options) {
  const Clock::time_point deadline = Clock::now() + options.kill_patience;
  while (true) {
    const pid_t ended = waitpid(-1, nullptr, WNOHANG);
    if (ended > 0) continue;
    if (ended < 0 && errno == ECHILD) return;
    const Clock::time_point now = Clock::now();
    if (now >= deadline + options.kill_patience) {
      std::string left;
      for (const pid_t child : children()) left += " " + std::to_string(child);
      options.say("these processes do not end, although they were killed:" + left);
      return;
    }
    if (now >= deadline) {
      for (const pid_t child : children()) kill(child, SIGKILL);
    }
    std::this_thread::sleep_for(milliseconds(20));
  }
}

// The signals that came, and what they mean for the mpirun that runs at the moment.
class Orders {
 public:
  explicit Orders(const SupervisorOptions& options) : options_(options) {}

  // mpirun: its process, 0 between two runs.
  void obey(int number, pid_t mpirun) {
    if (number == SIGINT && interrupts_++ > 0) {
      if (killing_) return;
      options_.say("interrupted again: ending all ranks now");
      if (mpirun > 0) kill(-mpirun, SIGTERM);
      killing_ = true;
      kill_deadline_ = Clock::now() + options_.kill_patience;
      return;
    }
    if (!stopping_) {
      options_.say("signal " + std::string(sigabbrev_np(number)) +
                   ": asking the ranks to write a checkpoint and stop" +
                   (number == SIGINT ? " (once more: stop at once)" : ""));
    }
    stopping_ = true;
    if (mpirun > 0) kill(mpirun, SIGUSR1);
  }

  // Once the patience with a killed mpirun is over.
  void enforce(pid_t mpirun) const {
    if (killing_ && Clock::now() >= kill_deadline_) kill(-mpirun, SIGKILL);
  }

  bool stopping() const { return stopping_ || killing_; }
  bool killing() const { return killing_; }

 private:
  const SupervisorOptions& options_;
  int interrupts_ = 0;
  bool stopping_ = false;
  bool killing_ = false;
  Clock::time_point kill_deadline_;
};

// The next signal within `limit`, 0 when none came.
int next_signal(milliseconds limit) {
  const sigset_t signals = waited_signals();
  const timespec time{limit.count() / 1000, (limit.count() % 1000) * 1000000};
  const int number = sigtimedwait(&signals, nullptr, &time);
  return number > 0 ? number : 0;
}

int run_once(const std::vector<std::string>& command, const SupervisorOptions& options,
             Orders& orders) {
  const Outputs outputs;  // outlives the ranks: it waits until the last of them has ended
  const pid_t mpirun = start(command, options.environment, outputs);
  while (true) {
    int status = 0;
    // A CHLD stands for any number of ends, so the process is asked, whatever came.
    if (waitpid(mpirun, &status, WNOHANG) == mpirun) {
      end_orphans(options);
      return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    }
    const int number = next_signal(milliseconds(200));
    if (number != 0 && number != SIGCHLD) orders.obey(number, mpirun);
    orders.enforce(mpirun);
  }
}

void pause_before_restart(milliseconds delay, Orders& orders) {
  const Clock::time_point end = Clock::now() + delay;
  while (Clock::now() < end && !orders.stopping()) {
    const int number = next_signal(milliseconds(50));
    if (number != 0 && number != SIGCHLD) orders.obey(number, 0);
  }
}

}  // namespace

std::string restart_reason(int code, bool asked_to_stop, milliseconds ran,
                           milliseconds start_time) {
  if (asked_to_stop) return "";
  if (code == 75) return "the training stopped early (75)";
  if (code == 86) return "a peer or the network failed (86)";
  if (code == 255) return "mpirun could not start on a host, or lost it (255)";
  if (code > 128)
    return "signal " + std::to_string(code - 128) + " ended a rank (" + std::to_string(code) + ")";
  if (code == 1 && ran >= start_time) return "mpirun lost a host (1)";
  return "";
}

int supervise(const SupervisorOptions& options) {
  // So that ranks that outlive a killed mpirun come to this process and can be ended.
  if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) throw_errno(errno, "prctl");
  Orders orders(options);
  for (int restarts = 0;; ++restarts) {
    const Clock::time_point began = Clock::now();
    const int code = run_once(restarts == 0 ? options.command : options.restarted, options, orders);
    if (orders.killing()) return kKilledByUser;
    if (orders.stopping() && code == 128 + SIGUSR1) {
      // The signal met a rank that was still being loaded and had nothing to save.
      options.say("stopped before training began");
      return kStopped;
    }
    const std::string reason = restart_reason(
        code, orders.stopping(), std::chrono::duration_cast<milliseconds>(Clock::now() - began),
        options.start_time);
    if (reason.empty()) return code;
    if (restarts >= options.max_restarts) {
      if (options.max_restarts > 0) {
        options.say(reason + "; not started again after " + std::to_string(restarts) +
                    " restarts (--max-restarts)");
      }
      return code;
    }
    options.say(reason + "; restart " + std::to_string(restarts + 1) + " of " +
                std::to_string(options.max_restarts));
    pause_before_restart(options.restart_delay, orders);
    if (orders.stopping()) return orders.killing() ? kKilledByUser : code;
  }
}

BlockedSignals::BlockedSignals() {
  const sigset_t signals = waited_signals();
  if (const int error = pthread_sigmask(SIG_BLOCK, &signals, &former_); error != 0) {
    throw_errno(error, "pthread_sigmask");
  }
}

BlockedSignals::~BlockedSignals() {
  pthread_sigmask(SIG_SETMASK, &former_, nullptr);
}

}  // namespace longship::launcher
