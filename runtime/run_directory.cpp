#include "runtime/run_directory.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>

#include "runtime/atomic_file.h"
#include "runtime/config_dump.h"
#include "runtime/error.h"
#include "runtime/process_identity.h"

namespace longship::runtime {
namespace {

namespace fs = std::filesystem;

std::string expand_home(const std::string& path) {
  const char* home = std::getenv("HOME");
  if (home == nullptr || (path != "~" && path.rfind("~/", 0) != 0)) return path;
  return home + path.substr(1);
}

ConfigError failure(const std::string& what, const fs::path& path, const std::error_code& error) {
  return ConfigError(fmt::format("{} '{}' on host {}: {} (errno {}); choose another run.directory",
                                 what, path.string(), host_name(), error.message(), error.value()));
}

// Creates a folder and what is missing above it. Existing ones are not touched, so that it does not
// matter who may write them.
void create_folders(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  // GCC's library reports no error for an existing file in the place of the folder.
  if (!error && !fs::is_directory(path, error) && !error) {
    error = std::make_error_code(std::errc::not_a_directory);
  }
  if (error) throw failure("cannot create the folder", path, error);
}

// A folder with other things in it was named by mistake; a run would mix its files with them.
void refuse_foreign(const fs::path& root) {
  constexpr std::array<std::string_view, 5> kOwn = {"config.yaml", "run.json", ".lock", "logs",
                                                    "checkpoints"};
  std::error_code error;
  fs::directory_iterator entries(root, error);
  if (error) throw failure("cannot read the folder", root, error);
  bool foreign = false;
  for (const fs::directory_entry& entry : entries) {
    const std::string name = entry.path().filename().string();
    if (std::find(kOwn.begin(), kOwn.end(), name) != kOwn.end()) return;
    // A job that starts at the same moment may be probing the folder.
    if (name.rfind(".tmp-", 0) != 0) foreign = true;
  }
  if (!foreign) return;
  throw ConfigError(fmt::format(
      "the folder '{}' exists and holds no run: choose another run.name or run.directory",
      root.string()));
}

}  // namespace

std::string choose_run_root(const std::string& directory, const std::string& name,
                            const std::string& stem, std::chrono::system_clock::time_point now) {
  const fs::path parent = expand_home(directory);
  if (!name.empty()) return (parent / name).string();
  create_folders(parent);
  const std::string first = fmt::format("{}-{:%Y%m%d-%H%M%S}", stem,
                                        fmt::gmtime(std::chrono::system_clock::to_time_t(now)));
  for (int number = 1;; ++number) {
    const fs::path root = parent / (number == 1 ? first : fmt::format("{}-{}", first, number));
    std::error_code error;
    if (fs::create_directory(root, error)) return root.string();
    if (error && error != std::errc::file_exists) {
      throw failure("cannot create the folder", root, error);
    }
  }
}

std::string rank_log_path(const std::string& root, int rank) {
  return (fs::path(root) / "logs" / fmt::format("rank-{:05}.log", rank)).string();
}

RunDirectory::RunDirectory(const std::string& root) : root_(root) {
  create_folders(root_);
  refuse_foreign(root_);
  probe_writable(root_);
  lock_ = std::make_unique<RunLock>(root_);
  create_folders(path("logs"));
  create_folders(path("checkpoints"));
}

std::string RunDirectory::path(const char* name) const {
  return (fs::path(root_) / name).string();
}
std::string RunDirectory::config_path() const {
  return path("config.yaml");
}
std::string RunDirectory::run_path() const {
  return path("run.json");
}
std::string RunDirectory::metrics_path() const {
  return path("metrics.jsonl");
}
std::string RunDirectory::checkpoints_path() const {
  return path("checkpoints");
}

bool RunDirectory::has_config() const {
  std::error_code error;
  return fs::exists(config_path(), error);
}

void RunDirectory::write_config(const Config& config) const {
  write_file_atomically(config_path(), dump_config(move_config(config, root_)));
}

void RunDirectory::write_run(const nlohmann::json& facts) const {
  // Names of hosts and files need not be UTF-8; they must not stop a run.
  const auto replace = nlohmann::json::error_handler_t::replace;
  write_file_atomically(run_path(), facts.dump(2, ' ', false, replace) + "\n");
}

int64_t RunDirectory::chosen_micro_batch_size() const {
  std::ifstream file(run_path());
  const auto facts = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  const nlohmann::json::json_pointer chosen("/resolved/micro_batch_size");
  if (facts.is_discarded() || !facts.contains(chosen)) return 0;
  const nlohmann::json& size = facts.at(chosen);
  return size.is_number_integer() ? size.get<int64_t>() : 0;
}

std::string RunDirectory::resumed_from() const {
  std::ifstream file(run_path());
  const auto facts = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (facts.is_discarded() || !facts.is_object()) return "";
  const auto found = facts.find("resumed_from");
  return found != facts.end() && found->is_string() ? found->get<std::string>() : "";
}

}  // namespace longship::runtime
