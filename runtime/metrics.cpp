#include "runtime/metrics.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "runtime/atomic_file.h"
#include "runtime/error.h"
#include "runtime/process_identity.h"

namespace longship::runtime {
namespace {

using nlohmann::ordered_json;

ordered_json finite_or_null(double value) {
  if (std::isfinite(value)) return value;
  return nullptr;
}

ConfigError failure(const char* what, const std::string& path) {
  const int error = errno;
  return ConfigError(fmt::format("{} the metrics '{}' on host {}: {} (errno {})", what, path,
                                 host_name(), std::generic_category().message(error), error));
}

// The records up to a step. What is no record was cut short by a crash and is dropped.
std::string lines_until(const std::string& path, int64_t step) {
  std::ifstream stream(path, std::ios::binary);
  std::string kept;
  for (std::string line; std::getline(stream, line);) {
    const ordered_json record = ordered_json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!record.is_object()) continue;
    const auto found = record.find("step");
    if (found == record.end() || !found->is_number_integer()) continue;
    if (found->get<int64_t>() <= step) kept += line + "\n";
  }
  if (stream.bad()) throw failure("cannot read", path);
  return kept;
}

}  // namespace

std::string to_json(const MetricRecord& record) {
  ordered_json object = {
      {"step", record.step},
      {"applied", record.applied},
      {"epoch", finite_or_null(record.epoch)},
      {"split", record.split},
      {"loss", finite_or_null(record.loss)},
      {"grad_norm", finite_or_null(record.grad_norm)},
      {"lr", finite_or_null(record.lr)},
      {"loss_scale", finite_or_null(record.loss_scale)},
      {"skipped", record.skipped},
      {"samples_per_s", finite_or_null(record.samples_per_s)},
      {"exposed_comm_ms", finite_or_null(record.exposed_comm_ms)},
      {"time", record.time.empty() ? utc_now() : record.time},
  };
  for (const auto& [name, value] : record.extra) {
    if (!object.emplace(name, finite_or_null(value)).second) {
      throw std::logic_error("the metric '" + name + "' has the name of a field of every record");
    }
  }
  return object.dump();
}

JsonLinesSink::JsonLinesSink(std::string path, std::optional<int64_t> resume_step)
    : path_(std::move(path)) {
  write_file_atomically(path_, resume_step ? lines_until(path_, *resume_step) : "");
  file_ = FileDescriptor(::open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  if (!file_.valid()) throw failure("cannot open", path_);
}

void JsonLinesSink::write(const MetricRecord& record) {
  if (!write_all(file_.get(), to_json(record) + "\n")) throw failure("cannot write", path_);
}

}  // namespace longship::runtime
