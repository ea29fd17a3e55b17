#include "launcher/mpirun_command.h"

#include <c10/cuda/CUDAFunctions.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string_view>
#include <utility>

#include "launcher/cpu_affinity.h"
#include "runtime/error.h"

extern char** environ;

namespace longship::launcher {
namespace {

namespace fs = std::filesystem;

bool set(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

// mpirun counts a core once, however many hardware threads it has.
int allowed_cores() {
  std::set<std::pair<std::string, std::string>> cores;
  const std::vector<int> cpus = allowed_cpus();
  for (const int cpu : cpus) {
    const std::string folder = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
    std::string package;
    std::string core;
    std::ifstream(folder + "physical_package_id") >> package;
    std::ifstream(folder + "core_id") >> core;
    if (core.empty()) return static_cast<int>(cpus.size());
    cores.emplace(package, core);
  }
  return static_cast<int>(cores.size());
}

bool mentions(const std::vector<std::string>& words, std::string_view option) {
  return std::any_of(words.begin(), words.end(), [&](const std::string& word) {
    return word == option || "-" + word == option;
  });
}

std::string output_of(const std::string& command) {
  struct Close {
    void operator()(FILE* file) const { pclose(file); }
  };
  // NOLINTNEXTLINE(bugprone-command-processor): the caller has quoted the path in it
  const std::unique_ptr<FILE, Close> pipe(popen(command.c_str(), "r"));
  if (pipe == nullptr) return "";
  std::string text;
  std::array<char, 512> part{};
  while (std::fgets(part.data(), part.size(), pipe.get()) != nullptr) text += part.data();
  return text;
}

std::string on_path(const std::string& name) {
  if (name.find('/') != std::string::npos) return access(name.c_str(), X_OK) == 0 ? name : "";
  const char* path = std::getenv("PATH");
  const std::string folders = path == nullptr ? "" : path;
  for (size_t first = 0; first <= folders.size();) {
    const size_t last = std::min(folders.find(':', first), folders.size());
    const fs::path candidate = fs::path(folders.substr(first, last - first)) / name;
    if (access(candidate.c_str(), X_OK) == 0 && !fs::is_directory(candidate)) return candidate;
    first = last + 1;
  }
  return "";
}

}  // namespace

Machine this_machine(bool count_gpus) {
  Machine machine;
  machine.root = geteuid() == 0;
  machine.cores = allowed_cores();
  machine.allocation = set("SLURM_JOB_ID") && set("SLURM_JOB_NODELIST");
  const char* device = std::getenv("LONGSHIP_DEVICE");
  if (count_gpus && (device == nullptr || std::string_view(device) != "cpu")) {
    // Counting opens the driver but makes no context on any GPU.
    // NOLINTNEXTLINE(bugprone-signed-char-misuse): a number that is no character
    machine.gpus = c10::cuda::device_count();
  }
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string_view name = text.substr(0, text.find('='));
    if (name == "LD_LIBRARY_PATH" || name == "OMP_NUM_THREADS" || name.starts_with("LONGSHIP_") ||
        name.starts_with("NCCL_")) {
      machine.exported.emplace_back(name);
    }
  }
  return machine;
}

std::vector<std::string> mpirun_command(const LaunchOptions& options, const Machine& machine,
                                        const std::string& mpirun, const std::string& program) {
  std::vector<std::string> command{mpirun, "-q"};
  const std::vector<std::string>& given = options.mpirun_arguments;
  if (machine.root && !mentions(given, "--allow-run-as-root")) {
    command.emplace_back("--allow-run-as-root");
  }
  const bool local = options.hosts.empty() && !machine.allocation;
  int ranks = options.ranks;
  if (ranks == 0 && local) ranks = std::max(1, machine.gpus);
  if (ranks > 0) command.insert(command.end(), {"-n", std::to_string(ranks)});
  if (!options.hosts.empty()) {
    command.insert(command.end(), {"-H", options.hosts});
    for (const std::string& name : machine.exported) {
      command.insert(command.end(), {"-x", name});
    }
  }
  // Ranks that share cores give them up while they wait.
  if (local && ranks > machine.cores && !mentions(given, "--oversubscribe")) {
    command.insert(command.end(), {"--oversubscribe", "--mca", "mpi_yield_when_idle", "1"});
  }
  // By default mpirun binds each of one or two ranks to a single core, loader threads and all.
  if (!mentions(given, "--bind-to")) command.insert(command.end(), {"--bind-to", "none"});
  command.insert(command.end(), given.begin(), given.end());
  command.push_back(program);
  command.insert(command.end(), options.program_arguments.begin(), options.program_arguments.end());
  return command;
}

std::vector<std::string> restart_command(std::vector<std::string> command) {
  constexpr std::string_view kResume = "--resume";
  for (size_t i = 0; i < command.size(); ++i) {
    if (command[i] == kResume && i + 1 < command.size()) command[i + 1] = "auto";
    if (command[i].starts_with(std::string(kResume) + "=")) command[i] = "--resume=auto";
  }
  return command;
}

std::string find_mpirun(const std::string& name) {
  const std::string path = on_path(name);
  if (path.empty()) {
    throw runtime::Error(runtime::ExitCode::kSetup,
                         "No mpirun: '" + name +
                             "' is not an executable file on PATH. Install Open MPI (Debian: "
                             "openmpi-bin; clusters: module load openmpi), or name it with "
                             "--mpirun PATH.");
  }
  const std::string version = output_of(shell_quoted(path) + " --version 2>&1 </dev/null");
  if (version.find("Open MPI") == std::string::npos &&
      version.find("OpenRTE") == std::string::npos) {
    throw runtime::Error(runtime::ExitCode::kSetup,
                         path + " is not Open MPI's mpirun; it says '" +
                             version.substr(0, version.find('\n')) +
                             "'. Name Open MPI's with --mpirun PATH, or start longship with the "
                             "launcher of the MPI it was built with.");
  }
  return path;
}

std::vector<std::string> scrubbed_environment(const std::vector<std::string>& environment) {
  const bool is_rank = std::any_of(
      environment.begin(), environment.end(),
      [](const std::string& entry) { return entry.starts_with("OMPI_COMM_WORLD_SIZE="); });
  std::vector<std::string> kept;
  for (const std::string& entry : environment) {
    const bool of_mpi = entry.starts_with("OMPI_") || entry.starts_with("PMIX_") ||
                        entry.starts_with("PMI_") || entry.starts_with("PRTE_");
    const bool of_user = entry.starts_with("OMPI_MCA_") || entry.starts_with("OMPI_ALLOW_") ||
                         entry.starts_with("PMIX_MCA_") || entry.starts_with("PRTE_MCA_");
    if (!of_mpi || (of_user && !is_rank)) kept.push_back(entry);
  }
  return kept;
}

std::string shell_quoted(const std::string& word) {
  const auto plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("_-+=./:,@%").find(c) != std::string_view::npos;
  };
  if (!word.empty() && std::all_of(word.begin(), word.end(), plain)) return word;
  std::string quoted = "'";
  for (const char c : word) {
    if (c == '\'') {
      quoted += "'\\''";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

std::string shell_quoted(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) {
    if (!line.empty()) line += ' ';
    line += shell_quoted(word);
  }
  return line;
}

std::vector<std::string> split_words(const std::string& line) {
  std::vector<std::string> words;
  bool in_word = false;
  char quote = '\0';
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    const bool blank = c == ' ' || c == '\t' || c == '\n';
    if (quote == '\0' && blank) {
      in_word = false;
      continue;
    }
    if (!in_word) words.emplace_back();
    in_word = true;
    if (c == quote) {
      quote = '\0';
    } else if (quote == '\0' && (c == '\'' || c == '"')) {
      quote = c;
    } else if (c == '\\' && quote != '\'' && i + 1 < line.size()) {
      words.back() += line[++i];
    } else {
      words.back() += c;
    }
  }
  if (quote != '\0') throw runtime::UsageError("A quote is not closed in: " + line);
  return words;
}

}  // namespace longship::launcher
