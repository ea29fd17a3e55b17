#include "runtime/process_identity.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <system_error>

namespace longship::runtime {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

int64_t as_integer(const std::string& text) {
  int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;  // 0 for what is no number
}

// Fields 3 (state) and 22 (start time) of /proc/PID/stat; the name before them may hold blanks and
// brackets, so reading begins behind the last one. State 0 when there is no such process.
struct ProcessStat {
  char state = 0;
  int64_t start_ticks = 0;
};

ProcessStat read_stat(int64_t pid) {
  std::ifstream stream("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  if (!std::getline(stream, line)) return {};
  const size_t bracket = line.rfind(')');
  if (bracket == std::string::npos) return {};
  std::istringstream fields(line.substr(bracket + 1));
  ProcessStat stat;
  fields >> stat.state;
  std::string word;
  for (int field = 4; field <= 22 && fields >> word; ++field) {
    if (field == 22) stat.start_ticks = as_integer(word);
  }
  return stat;
}

}  // namespace

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "unknown-host";
  return name.data();
}

ProcessIdentity this_process() {
  ProcessIdentity self;
  self.host = host_name();
  std::ifstream boot("/proc/sys/kernel/random/boot_id");
  std::getline(boot, self.boot);
  std::error_code error;
  const auto pid_namespace = std::filesystem::read_symlink("/proc/self/ns/pid", error);
  if (!error) self.pid_namespace = pid_namespace.string();
  self.pid = getpid();
  self.start_ticks = read_stat(self.pid).start_ticks;
  self.slurm_job = environment("SLURM_JOB_ID");
  self.slurm_restarts = as_integer(environment("SLURM_RESTART_COUNT"));
  return self;
}

bool is_running(const ProcessIdentity& process) {
  if (kill(static_cast<pid_t>(process.pid), 0) != 0 && errno == ESRCH) return false;
  const ProcessStat stat = read_stat(process.pid);
  if (stat.state == 'Z' || stat.state == 'X') return false;
  const bool comparable = stat.start_ticks != 0 && process.start_ticks != 0;
  return !comparable || stat.start_ticks == process.start_ticks;
}

bool shares_pids(const ProcessIdentity& process, const ProcessIdentity& self) {
  return process.host == self.host && process.boot == self.boot &&
         process.pid_namespace == self.pid_namespace;
}

std::string utc_now() {
  const auto now = std::chrono::system_clock::now();
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}Z",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(now)));
}

}  // namespace longship::runtime
