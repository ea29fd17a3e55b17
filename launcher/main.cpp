#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "data/hdf5_guard.h"
#include "launcher/command.h"
#include "launcher/session.h"
#include "runtime/error.h"

namespace {

using longship::launcher::Command;

std::vector<Command> commands() {
  using namespace longship::launcher;
  return {train_command(), evaluate_command(), data_command(),   checkpoint_command(),
          init_command(),  doctor_command(),   launch_command(), bench_command()};
}

std::string usage(const std::vector<Command>& all) {
  std::string text = "Longship " LONGSHIP_VERSION
                     ": trains time-series models on many GPUs of many machines.\n\n"
                     "Usage: longship COMMAND [...]\n\nCommands:\n";
  for (const Command& command : all) {
    text +=
        "  " + command.name + std::string(12 - command.name.size(), ' ') + command.summary + "\n";
  }
  return text + "\n`longship COMMAND --help` tells more. First steps: longship init my-run\n";
}

int run(const std::vector<std::string>& words) {
  const std::vector<Command> all = commands();
  if (words.empty() || words[0] == "--help" || words[0] == "-h" || words[0] == "help") {
    std::fputs(usage(all).c_str(), words.empty() ? stderr : stdout);
    return static_cast<int>(words.empty() ? longship::runtime::ExitCode::kUsage
                                          : longship::runtime::ExitCode::kDone);
  }
  if (words[0] == "--version") {
    std::puts("longship " LONGSHIP_VERSION);
    return 0;
  }
  for (const Command& command : all) {
    if (command.name == words[0]) {
      return command.run({words.begin() + 1, words.end()});
    }
  }
  throw longship::runtime::UsageError("there is no command '" + words[0] +
                                      "'; see longship --help");
}

// A result that could not be written is no success; a reader that had enough is no failure.
void check_output() {
  std::cout.flush();
  const bool lost = std::fflush(stdout) != 0 || std::ferror(stdout) != 0 || !std::cout;
  if (lost && errno != EPIPE) {
    throw longship::runtime::Error(
        longship::runtime::ExitCode::kInput,
        std::string("standard output cannot be written: ") + std::strerror(errno));
  }
}

// Ends the program, also where a thread was left behind that destructors would wait for.
int end_with(int code) {
  if (longship::data::hdf5_is_stuck()) {
    std::fflush(nullptr);
    _exit(code);
  }
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  // A closed pipe behind the console must not end a training.
  std::signal(SIGPIPE, SIG_IGN);
  longship::data::tell_broken_hdf5(longship::launcher::rank_by_environment() == 0);
  try {
    const int code = run({argv + 1, argv + argc});
    // The result stands; a further request to stop must not change it while libraries are unloaded.
    std::signal(SIGUSR1, SIG_IGN);
    std::signal(SIGTERM, SIG_IGN);
    std::signal(SIGHUP, SIG_IGN);
    check_output();
    return end_with(code);
  } catch (const std::exception& error) {
    // Outside the commands that ranks share, every rank meets the same error: one tells it.
    if (longship::launcher::rank_by_environment() == 0) {
      std::fprintf(stderr, "longship: error: %s\n", longship::runtime::message_of(error).c_str());
    }
    return end_with(static_cast<int>(longship::runtime::exit_code_of(error)));
  }
}
