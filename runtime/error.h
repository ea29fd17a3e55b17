#pragma once

#include <stdexcept>
#include <string>

namespace longship::runtime {

// The program's exit codes. docs/exit_codes.md explains them to users.
enum class ExitCode : int {
  kDone = 0,
  kUsage = 2,
  kInput = 3,  // configuration or input data
  kCheckpoint = 4,
  kSetup = 5,  // device, MPI or NCCL set-up
  kDiverged = 6,
  kInternal = 70,
  kStopped = 75,  // stopped early, resume me
  kPeer = 86,     // a peer or the network failed
};

// An error with the exit code that it ends the program with.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

class UsageError : public Error {
 public:
  explicit UsageError(const std::string& message) : Error(ExitCode::kUsage, message) {}
};

// A run file that cannot be used: names file, line and key, and the nearest valid key.
class ConfigError : public Error {
 public:
  explicit ConfigError(const std::string& message) : Error(ExitCode::kInput, message) {}
};

class CheckpointError : public Error {
 public:
  explicit CheckpointError(const std::string& message) : Error(ExitCode::kCheckpoint, message) {}
};

// The exit code for any exception: Error's own; kInput for data::DataError and where memory ran
// out; kSetup or kPeer for comm::CommError; kInternal for the rest.
ExitCode exit_code_of(const std::exception& error);

// What the user is told of any exception: its message without LibTorch's backtrace, and a remedy
// where memory ran out.
std::string message_of(const std::exception& error);

}  // namespace longship::runtime
