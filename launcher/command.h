#pragma once

#include <functional>
#include <string>
#include <vector>

namespace longship::launcher {

// A subcommand: one source file each (launcher/command_NAME.cpp), listed in launcher/main.cpp.
// `run` gets the words after the subcommand's name and returns the exit code; it throws
// runtime::UsageError for a wrong command line and other exceptions as runtime::exit_code_of says.
// Results go to standard output, messages to standard error.
struct Command {
  std::string name;
  std::string summary;  // one line for `longship --help`
  std::function<int(const std::vector<std::string>& arguments)> run;
};

Command train_command();
Command evaluate_command();
Command data_command();
Command checkpoint_command();
Command init_command();
Command doctor_command();
Command launch_command();
Command bench_command();

}  // namespace longship::launcher
