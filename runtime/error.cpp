#include "runtime/error.h"

#include "comm/error.h"
#include "data/error.h"

namespace longship::runtime {

ExitCode exit_code_of(const std::exception& error) {
  if (const auto* own = dynamic_cast<const Error*>(&error)) return own->code();
  if (dynamic_cast<const data::DataError*>(&error) != nullptr) return ExitCode::kInput;
  if (const auto* failed = dynamic_cast<const comm::CommError*>(&error)) {
    return failed->kind() == comm::CommError::Kind::kSetup ? ExitCode::kSetup : ExitCode::kPeer;
  }
  return ExitCode::kInternal;
}

}  // namespace longship::runtime
