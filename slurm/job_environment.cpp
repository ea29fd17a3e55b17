#include "slurm/job_environment.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>

namespace longship::slurm {
namespace {

std::optional<int64_t> number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

std::optional<int> variable_number(const GetVariable& get, const char* name) {
  const char* text = get(name);
  if (text == nullptr) return std::nullopt;
  const auto value = number(text);
  if (!value || *value > INT32_MAX) return std::nullopt;
  return static_cast<int>(*value);
}

std::string variable_text(const GetVariable& get, const char* name) {
  const char* text = get(name);
  return text == nullptr ? "" : text;
}

}  // namespace

std::optional<JobEnvironment> job_environment(const GetVariable& get) {
  JobEnvironment job;
  job.job_id = variable_text(get, "SLURM_JOB_ID");
  if (job.job_id.empty()) return std::nullopt;
  job.job_name = variable_text(get, "SLURM_JOB_NAME");
  job.node_list = variable_text(get, "SLURM_JOB_NODELIST");
  job.nodes = variable_number(get, "SLURM_JOB_NUM_NODES");
  job.tasks = variable_number(get, "SLURM_NTASKS");
  job.cpus_per_task = variable_number(get, "SLURM_CPUS_PER_TASK");
  job.step_cpus_per_task = variable_number(get, "SRUN_CPUS_PER_TASK");
  job.restarts = variable_number(get, "SLURM_RESTART_COUNT").value_or(0);
  return job;
}

std::optional<JobEnvironment> job_environment() {
  return job_environment([](const char* name) { return std::getenv(name); });
}

std::optional<std::chrono::seconds> parse_time_left(const std::string& text) {
  std::string_view rest(text);
  while (!rest.empty() && (rest.back() == '\n' || rest.back() == ' ')) rest.remove_suffix(1);
  int64_t days = 0;
  const size_t dash = rest.find('-');
  if (dash != std::string_view::npos) {
    const auto value = number(rest.substr(0, dash));
    if (!value) return std::nullopt;
    days = *value;
    rest.remove_prefix(dash + 1);
  }
  int64_t seconds = 0;
  int parts = 0;
  while (true) {
    const size_t colon = rest.find(':');
    const auto value = number(rest.substr(0, colon));
    if (!value) return std::nullopt;
    seconds = seconds * 60 + *value;
    ++parts;
    if (colon == std::string_view::npos) break;
    rest.remove_prefix(colon + 1);
  }
  if (parts < 2 || parts > 3 || (dash != std::string_view::npos && parts != 3)) return std::nullopt;
  return std::chrono::seconds(days * 86400 + seconds);
}

std::optional<std::chrono::seconds> time_left(const std::string& job_id) {
  // The id becomes part of a command line, so nothing but an id may pass.
  const bool plain = !job_id.empty() && std::all_of(job_id.begin(), job_id.end(), [](char c) {
    return (c >= '0' && c <= '9') || c == '_';
  });
  if (!plain) return std::nullopt;
  const std::string command = "squeue -h -j " + job_id + " -o %L 2>/dev/null";
  struct Close {
    void operator()(FILE* file) const { pclose(file); }
  };
  // NOLINTNEXTLINE(bugprone-command-processor): only the id varies, which was checked above
  const std::unique_ptr<FILE, Close> pipe(popen(command.c_str(), "r"));
  if (pipe == nullptr) return std::nullopt;
  std::array<char, 128> line{};
  if (std::fgets(line.data(), line.size(), pipe.get()) == nullptr) return std::nullopt;
  return parse_time_left(line.data());
}

}  // namespace longship::slurm
