#include "slurm/job_environment.h"

#include <charconv>
#include <cstdint>
#include <cstdlib>
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

}  // namespace longship::slurm
