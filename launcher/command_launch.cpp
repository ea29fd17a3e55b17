#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cxxopts.hpp>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <optional>
#include <string_view>
#include <system_error>

#include "launcher/arguments.h"
#include "launcher/command.h"
#include "launcher/mpirun_command.h"
#include "launcher/mpirun_supervisor.h"
#include "launcher/train_options.h"
#include "runtime/config_load.h"
#include "runtime/error.h"

namespace longship::launcher {
namespace {

constexpr std::array<std::string_view, 4> kParallelCommands = {"train", "evaluate", "bench",
                                                               "doctor"};

cxxopts::Options option_table() {
  cxxopts::Options table(
      "longship launch",
      "Starts ranks with Open MPI's mpirun and looks after them: Ctrl-C and TERM "
      "become a checkpoint and a clean end, the exit code comes back unharmed.\n"
      "Example: longship launch -n 4 -- train run.yaml");
  table.custom_help("[-n N | --hosts a:8,b:8] [options]");
  table.positional_help("-- train CONFIG [...]");
  table.add_options()  //
      ("n,ranks", "ranks to start (default: one for each visible GPU, 1 without GPUs)",
       cxxopts::value<int>(), "N")                                                  //
      ("hosts", "hosts and their ranks", cxxopts::value<std::string>(), "a:8,b:8")  //
      ("max-restarts",
       "start again, to resume, after an early stop (75), a failed peer (86), a killed rank or a "
       "lost host; at most K times (default: 0)",
       cxxopts::value<int>()->default_value("0"), "K")  //
      ("mpirun", "Open MPI's mpirun (default: the one on PATH)", cxxopts::value<std::string>(),
       "PATH")  //
      ("mpirun-args", "more words for mpirun, quoted as for a shell", cxxopts::value<std::string>(),
       "WORDS")                                                                         //
      ("dry-run", "print the mpirun command as a line for a shell, and start nothing")  //
      ("h,help", "print this help");
  return table;
}

void check_program(const std::vector<std::string>& words) {
  if (!words.empty() && std::find(kParallelCommands.begin(), kParallelCommands.end(), words[0]) !=
                            kParallelCommands.end()) {
    return;
  }
  std::string message = "launch: after -- comes one of";
  for (const std::string_view name : kParallelCommands) message += " " + std::string(name);
  message += ", not " + (words.empty() ? "nothing" : "'" + words[0] + "'") +
             "; as in: longship launch -n 2 -- train run.yaml";
  throw runtime::UsageError(message);
}

// mpirun takes an empty list for none, and a host with no slots for one that is full.
void check_hosts(const std::string& hosts) {
  for (size_t begin = 0; begin <= hosts.size();) {
    const size_t end = std::min(hosts.find(',', begin), hosts.size());
    const std::string_view host = std::string_view(hosts).substr(begin, end - begin);
    const std::string_view name = host.substr(0, host.find(':'));
    bool good = !name.empty();
    if (name.size() < host.size()) {
      const std::string_view count = host.substr(name.size() + 1);
      int ranks = 0;
      const auto read = std::from_chars(count.data(), count.data() + count.size(), ranks);
      good = good && read.ec == std::errc() && read.ptr == count.data() + count.size() && ranks > 0;
    }
    if (!good) {
      throw runtime::UsageError("launch: --hosts '" + hosts + "': '" + std::string(host) +
                                "' is not HOST or HOST:RANKS with at least 1 rank");
    }
    begin = end + 1;
  }
}

LaunchOptions read_options(const cxxopts::ParseResult& parsed,
                           std::vector<std::string> program_arguments) {
  LaunchOptions options;
  options.program_arguments = std::move(program_arguments);
  if (parsed.count("ranks") > 0) {
    options.ranks = parsed["ranks"].as<int>();
    if (options.ranks < 1) {
      throw runtime::UsageError("launch: -n " + std::to_string(options.ranks) +
                                ": at least 1 rank is needed");
    }
  }
  options.hosts = text_option(parsed, "hosts", "");
  if (parsed.count("hosts") > 0) check_hosts(options.hosts);
  options.max_restarts = parsed["max-restarts"].as<int>();
  if (options.max_restarts < 0) {
    throw runtime::UsageError("launch: --max-restarts may not be negative");
  }
  options.mpirun = text_option(parsed, "mpirun", "mpirun");
  options.mpirun_arguments = split_words(text_option(parsed, "mpirun-args", ""));
  options.dry_run = parsed.count("dry-run") > 0;
  return options;
}

void say(const std::string& line) {
  std::cerr << "longship launch: " + line + "\n" << std::flush;
}

// A dry run needs no ranks, and each would plan for itself alone.
void refuse_dry_run(const LaunchOptions& options) {
  const std::vector<std::string>& words = options.program_arguments;
  const bool dry = std::find(words.begin(), words.end(), "--dry-run") != words.end();
  if (words.front() != "train" || !dry) return;
  const std::optional<TrainOptions> train = parse_train_options({words.begin() + 1, words.end()});
  if (!train) return;
  throw runtime::UsageError(
      "launch: a dry run starts no ranks; give it their number instead: longship train " +
      train->config_path + " --dry-run --ranks " +
      (options.ranks > 0 ? std::to_string(options.ranks) : "N"));
}

// Without a name each start makes a new run, so that a restart would lose what was trained.
void check_restarts(const LaunchOptions& options) {
  const std::vector<std::string>& words = options.program_arguments;
  if (options.max_restarts == 0 || words.front() != "train") return;
  const std::optional<TrainOptions> train = parse_train_options({words.begin() + 1, words.end()});
  if (!train || train->dry_run) return;
  std::string name;
  try {
    name = runtime::load_config(train->config_path, train->overrides).run.name;
  } catch (const runtime::ConfigError&) {
    return;  // the ranks tell what is wrong with the run file
  }
  if (name.empty()) {
    throw runtime::UsageError(
        "launch: --max-restarts needs a run with a name, to go on with: set run.name in " +
        train->config_path + ", or add --set run.name=NAME");
  }
}

std::vector<std::string> own_environment() {
  std::vector<std::string> entries;
  for (char** entry = environ; *entry != nullptr; ++entry) entries.emplace_back(*entry);
  return entries;
}

int run(const LaunchOptions& options) {
  // Blocked before CUDA may start threads, so that no thread takes a signal that is waited for.
  const BlockedSignals blocked;
  const Machine machine = this_machine(options.ranks == 0 && options.hosts.empty());
  const std::string mpirun = find_mpirun(options.mpirun);
  const std::string program = std::filesystem::read_symlink("/proc/self/exe");
  const std::vector<std::string> command = mpirun_command(options, machine, mpirun, program);
  if (options.dry_run) {
    std::cout << shell_quoted(command) << "\n";
    return 0;
  }
  SupervisorOptions supervisor;
  supervisor.command = command;
  LaunchOptions again = options;
  again.program_arguments = restart_command(options.program_arguments);
  supervisor.restarted = mpirun_command(again, machine, mpirun, program);
  supervisor.environment = scrubbed_environment(own_environment());
  supervisor.max_restarts = options.max_restarts;
  supervisor.say = say;
  say(shell_quoted(command));
  const int code = supervise(supervisor);
  if (code > 128 && code < 128 + 65) {
    say("a rank was ended by signal " + std::to_string(code - 128) +
        "; give the same command again to go on from the newest checkpoint");
  }
  if (code == 1) {
    // mpirun's -q, which keeps its banner away from the training's own errors, silences these too.
    std::vector<std::string> loud = command;
    loud.erase(std::remove(loud.begin(), loud.end(), "-q"), loud.end());
    say("mpirun itself failed (code 1; the ranks have other codes). To see why: " +
        shell_quoted(loud));
  }
  return code;
}

int parse_and_run(const std::vector<std::string>& arguments) {
  const auto mark = std::find(arguments.begin(), arguments.end(), "--");
  const std::vector<std::string> own(arguments.begin(), mark);
  std::vector<std::string> program;
  if (mark != arguments.end()) program.assign(std::next(mark), arguments.end());

  cxxopts::Options table = option_table();
  const cxxopts::ParseResult parsed = parse_arguments(table, own);
  if (parsed.count("help") > 0) {
    std::cout << table.help();
    return 0;
  }
  check_program(program);
  const LaunchOptions options = read_options(parsed, std::move(program));
  refuse_dry_run(options);
  check_restarts(options);
  return run(options);
}

}  // namespace

Command launch_command() {
  return {"launch", "start ranks with mpirun, look after them, restart them", parse_and_run};
}

}  // namespace longship::launcher
