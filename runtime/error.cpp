#include "runtime/error.h"

#include <c10/util/Exception.h>

#include <new>
#include <string>
#include <string_view>

#include "comm/error.h"
#include "data/error.h"

namespace longship::runtime {
namespace {

bool memory_ran_out(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return true;
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr) return true;
  // LibTorch has no type of its own for the host's memory.
  const auto* torch = dynamic_cast<const c10::Error*>(&error);
  return torch != nullptr &&
         std::string_view(torch->what_without_backtrace()).find("DefaultCPUAllocator") !=
             std::string_view::npos;
}

}  // namespace

ExitCode exit_code_of(const std::exception& error) {
  if (const auto* own = dynamic_cast<const Error*>(&error)) return own->code();
  if (dynamic_cast<const data::DataError*>(&error) != nullptr) return ExitCode::kInput;
  if (const auto* failed = dynamic_cast<const comm::CommError*>(&error)) {
    return failed->kind() == comm::CommError::Kind::kSetup ? ExitCode::kSetup : ExitCode::kPeer;
  }
  if (memory_ran_out(error)) return ExitCode::kInput;
  return ExitCode::kInternal;
}

std::string message_of(const std::exception& error) {
  const auto* torch = dynamic_cast<const c10::Error*>(&error);
  std::string text = torch != nullptr ? torch->what_without_backtrace() : error.what();
  if (memory_ran_out(error)) {
    text = "memory ran out (" + text +
           "): take fewer rows, columns, ranks or smaller batches, or a machine with more memory";
  }
  return text;
}

}  // namespace longship::runtime
