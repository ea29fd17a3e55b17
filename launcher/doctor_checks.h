#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace longship::launcher {

// What is wrong, one sentence each that names the host and the remedy. Problems keep training from
// starting (exit code 5); warnings make it slow or surprising.
struct Findings {
  std::vector<std::string> problems;
  std::vector<std::string> warnings;
};

// Judges the facts of all ranks (doctor_facts(), in the order of ranks): versions and settings that
// differ between hosts, GPUs that cannot be used or are too few, CPUs, shared memory, the network
// interface that NCCL is told to use, HDF5 filters.
Findings doctor_checks(const std::vector<nlohmann::json>& ranks);

// Whether NCCL takes an interface by a value of NCCL_SOCKET_IFNAME: prefixes divided by commas, "="
// in front for whole names, "^" for all but these.
bool nccl_takes_interface(const std::string& setting, const std::string& name);

}  // namespace longship::launcher
