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

// Creates a folder and what is missing above it; false where it was there. Existing ones are not
// touched, so that it does not matter who may write them.
bool create_folders(const fs::path& path) {
  std::error_code error;
  const bool created = fs::create_directories(path, error);
  // GCC's library reports no error for an existing file in the place of the folder.
  if (!error && !fs::is_directory(path, error) && !error) {
    error = std::make_error_code(std::errc::not_a_directory);
  }
  if (error) throw failure("cannot create the folder", path, error);
  return created;
}

nlohmann::json run_facts(const std::string& path) {
  std::ifstream file(path);
  nlohmann::json facts = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  return facts.is_object() ? facts : nlohmann::json::object();
}

}  // namespace

// A folder with other things in it was named by mistake; a run would mix its files with them.
void refuse_foreign_folder(const std::string& root) {
  constexpr std::array<std::string_view, 5> kOwn = {"config.yaml", "run.json", ".lock", "logs",
                                                    "checkpoints"};
  std::error_code error;
  fs::directory_iterator entries(root, error);
  if (error == std::errc::no_such_file_or_directory) return;
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
      "the folder '{}' exists and holds no run: choose another run.name or run.directory", root));
}

std::vector<std::string> missing_folders(const std::string& folder) {
  std::vector<std::string> missing;
  std::error_code error;
  for (fs::path at = fs::absolute(folder, error).lexically_normal();
       at.has_relative_path() && !fs::exists(fs::symlink_status(at, error));
       at = at.parent_path()) {
    if (at.has_filename()) missing.insert(missing.begin(), at.string());
  }
  return missing;
}

std::string named_run_root(const std::string& directory, const std::string& name) {
  return (fs::path(expand_home(directory)) / name).string();
}

std::string choose_run_root(const std::string& directory, const std::string& name,
                            const std::string& stem, std::chrono::system_clock::time_point now) {
  if (!name.empty()) return named_run_root(directory, name);
  const fs::path parent = expand_home(directory);
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

std::string RunRecords::path(const char* name) const {
  return (fs::path(root_) / name).string();
}

bool RunRecords::has_config() const {
  std::error_code error;
  return fs::exists(config_path(), error);
}

int64_t RunRecords::chosen_micro_batch_size() const {
  const nlohmann::json facts = run_facts(run_path());
  const nlohmann::json::json_pointer chosen("/resolved/micro_batch_size");
  if (!facts.contains(chosen)) return 0;
  const nlohmann::json& size = facts.at(chosen);
  return size.is_number_integer() ? size.get<int64_t>() : 0;
}

std::string RunRecords::resumed_from() const {
  const nlohmann::json facts = run_facts(run_path());
  const auto found = facts.find("resumed_from");
  return found != facts.end() && found->is_string() ? found->get<std::string>() : "";
}

RunDirectory::RunDirectory(const std::string& root, std::vector<std::string> made)
    : RunRecords(root), created_(std::move(made)) {
  for (const std::string& folder : missing_folders(root)) created_.push_back(folder);
  try {
    create_folders(root);
    refuse_foreign_folder(root);
    probe_writable(root);
    lock_ = std::make_unique<RunLock>(root);
    for (const std::string& folder : {path("logs"), checkpoints_path()}) {
      if (create_folders(folder)) created_.push_back(folder);
    }
  } catch (...) {
    remove_created();
    throw;
  }
}

// Where something else is inside, this fails, as it should.
void RunDirectory::remove_created() const {
  std::error_code error;
  for (auto folder = created_.rbegin(); folder != created_.rend(); ++folder) {
    fs::remove(*folder, error);
  }
}

RunDirectory::~RunDirectory() {
  // With metrics there was a run, whatever became of its config.yaml.
  std::error_code error;
  const bool unused = !has_config() && !fs::exists(run_path(), error) &&
                      !fs::exists(metrics_path(), error) &&
                      fs::is_empty(checkpoints_path(), error) && !error;
  lock_.reset();
  if (!unused) return;
  for (const fs::directory_entry& entry : fs::directory_iterator(path("logs"), error)) {
    if (entry.path().filename().string().rfind("rank-", 0) == 0) fs::remove(entry.path(), error);
  }
  remove_created();
}

void RunDirectory::write_config(const Config& config) const {
  write_file_atomically(config_path(), dump_config(move_config(config, root())));
}

void RunDirectory::write_run(const nlohmann::json& facts) const {
  // Names of hosts and files need not be UTF-8; they must not stop a run.
  const auto replace = nlohmann::json::error_handler_t::replace;
  write_file_atomically(run_path(), facts.dump(2, ' ', false, replace) + "\n");
}

}  // namespace longship::runtime
