#include "runtime/fault_injection.h"

#include <chrono>
#include <cstdlib>
#include <regex>
#include <stdexcept>
#include <thread>

#include "runtime/error.h"

namespace longship::runtime {

FaultInjection FaultInjection::from_environment(int rank) {
  FaultInjection fault;
  const char* text = std::getenv("LONGSHIP_FAULT");
  if (text == nullptr) {
    return fault;
  }
  static const std::regex form(R"((overflow|throw|freeze):rank=(\d{1,9}),step=(\d{1,18}))");
  std::cmatch match;
  if (!std::regex_match(text, match, form)) {
    throw UsageError(std::string("LONGSHIP_FAULT is '") + text +
                     "', not overflow|throw|freeze:rank=R,step=S");
  }
  if (std::stoi(match[2]) == rank) {
    fault.kind_ = match[1];
    fault.step_ = std::stoll(match[3]);
  }
  return fault;
}

void FaultInjection::strike(int64_t step) const {
  if (matches("throw", step)) {
    throw std::runtime_error("LONGSHIP_FAULT asked for an exception in step " +
                             std::to_string(step));
  }
  while (matches("freeze", step)) {
    std::this_thread::sleep_for(std::chrono::hours(1));
  }
}

}  // namespace longship::runtime
