#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace longship::launcher {

// The report of `longship doctor --json` as text for people. The report holds:
//   ok, problems [], warnings []       Findings
//   ranks [facts]                      doctor_facts() in the order of ranks
//   binding [text]                     each rank's device, such as "cuda:1" or "cpu"; [] if refused
//   all_reduce                         {backend, device, milliseconds}; null when it was not tried
//   mpirun                             the mpirun line for this machine; "" when unknown
std::string doctor_text(const nlohmann::json& report);

}  // namespace longship::launcher
