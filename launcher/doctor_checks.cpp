#include "launcher/doctor_checks.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <sstream>

#include "comm/error.h"
#include "launcher/cpu_affinity.h"
#include "launcher/device_binding.h"

namespace longship::launcher {
namespace {

using nlohmann::json;

std::string text(const json& facts, const char* key) {
  return facts.at(key).get<std::string>();
}

std::string joined(const std::set<std::string>& names) {
  std::string line;
  for (const std::string& name : names) {
    if (!line.empty()) line += ", ";
    line += name;
  }
  return line;
}

// The first rank of each node speaks for its node.
std::vector<const json*> first_of_nodes(const std::vector<json>& ranks) {
  std::vector<const json*> found;
  std::set<int> seen;
  for (const json& rank : ranks) {
    if (seen.insert(rank.at("node").get<int>()).second) found.push_back(&rank);
  }
  return found;
}

void check_versions(const std::vector<json>& ranks, Findings& findings) {
  for (const auto& [name, expected] : ranks[0].at("versions").items()) {
    std::set<std::string> told;
    for (const json& rank : ranks) {
      const json& value = rank.at("versions").at(name);
      if (value == expected || !told.insert(text(rank, "host")).second) continue;
      findings.problems.push_back(
          "Host " + text(rank, "host") + " has " + name + " '" + value.get<std::string>() +
          "', host " + text(ranks[0], "host") + " has '" + expected.get<std::string>() +
          "': use the same installation on all hosts, and hand library paths on with mpirun -x "
          "LD_LIBRARY_PATH.");
    }
  }
}

void check_settings(const std::vector<json>& ranks, Findings& findings) {
  std::set<std::string> names;
  for (const json& rank : ranks) {
    for (const auto& [name, value] : rank.at("environment").items()) names.insert(name);
  }
  names.erase("CUDA_VISIBLE_DEVICES");  // may differ from rank to rank
  const auto value_of = [](const json& rank, const std::string& name) -> std::string {
    const json& environment = rank.at("environment");
    const auto found = environment.find(name);
    if (found == environment.end()) return "not set";
    std::string quoted = "'";
    quoted += found->get<std::string>();
    return quoted += '\'';
  };
  for (const std::string& name : names) {
    const std::string expected = value_of(ranks[0], name);
    for (size_t r = 1; r < ranks.size(); ++r) {
      const std::string value = value_of(ranks[r], name);
      if (value == expected) continue;
      findings.warnings.push_back(name + " is " + expected + " on rank 0 (host " +
                                  text(ranks[0], "host") + ") and " + value + " on rank " +
                                  std::to_string(r) + " (host " + text(ranks[r], "host") +
                                  "): hand it on with mpirun -x " + name + ".");
      break;
    }
  }
}

void check_gpus(const std::vector<json>& ranks, Findings& findings) {
  std::vector<RankDevices> devices;
  devices.reserve(ranks.size());
  for (const json& rank : ranks) devices.push_back(devices_of(rank.at("devices")));
  try {
    choose_devices(devices, false);
  } catch (const comm::CommError& error) {
    findings.problems.emplace_back(error.what());
  }
  for (const json* node : first_of_nodes(ranks)) {
    const json& versions = node->at("versions");
    const bool hidden = node->at("environment").contains("CUDA_VISIBLE_DEVICES");
    if (!node->at("gpus").empty() || !node->at("gpu_files").get<bool>() || hidden) continue;
    const RankDevices own = devices_of(node->at("devices"));
    if (own.requested == "cpu") continue;
    findings.warnings.push_back(
        "Host " + text(*node, "host") + " has NVIDIA devices, but CUDA " +
        versions.at("cuda").get<std::string>() + " sees none (driver " +
        (text(versions, "driver").empty() ? "unknown" : text(versions, "driver")) +
        ", for CUDA up to " +
        (text(versions, "driver_cuda").empty() ? "unknown" : text(versions, "driver_cuda")) +
        "): training would run on CPUs. Update the driver (CUDA 13 needs 580 or newer), or build "
        "with the CUDA 12.8 build of LibTorch.");
  }
}

void check_cpus(const std::vector<json>& ranks, Findings& findings) {
  std::set<std::string> told;
  for (const json& rank : ranks) {
    const json& cpus = rank.at("cpus");
    int per_task = 0;
    if (const json& job = rank.at("slurm");
        job.is_object() && job.at("cpus_per_task").is_number()) {
      per_task = job.at("cpus_per_task").get<int>();
    }
    for (const std::string& warning :
         cpu_warnings(cpus.at("count").get<int>(), cpus.at("threads").get<int>(), per_task)) {
      const std::string line = "Host " + text(rank, "host") + ": " + warning;
      if (told.insert(line).second) findings.warnings.push_back(line);
    }
  }
}

// Docker's default is 64 MiB; NCCL takes some tens of MiB for each pair of ranks of a host.
constexpr int64_t kSmallSharedMemoryMib = 256;

void check_shared_memory(const std::vector<json>& ranks, Findings& findings) {
  for (const json* node : first_of_nodes(ranks)) {
    const json& memory = node->at("shared_memory");
    const int64_t total = memory.is_null() ? 0 : memory.at("total_mib").get<int64_t>();
    if (total >= kSmallSharedMemoryMib) continue;
    findings.warnings.push_back("Host " + text(*node, "host") + ": /dev/shm has " +
                                std::to_string(total) +
                                " MiB, too little for NCCL and MPI among several ranks of a host: "
                                "start the container with --shm-size=1g or --ipc=host.");
  }
}

void check_interfaces(const std::vector<json>& ranks, Findings& findings) {
  const std::vector<const json*> nodes = first_of_nodes(ranks);
  for (const json* node : nodes) {
    const json& environment = node->at("environment");
    const auto setting = environment.find("NCCL_SOCKET_IFNAME");
    if (setting == environment.end()) continue;
    std::set<std::string> taken;
    std::set<std::string> all;
    bool only_loopback = true;
    for (const json& interface : node->at("interfaces")) {
      const std::string name = text(interface, "name");
      all.insert(name);
      if (!nccl_takes_interface(setting->get<std::string>(), name)) continue;
      taken.insert(name);
      only_loopback = only_loopback && interface.at("loopback").get<bool>();
    }
    const std::string names = joined(all);
    const std::string start =
        "Host " + text(*node, "host") + ": NCCL_SOCKET_IFNAME=" + setting->get<std::string>();
    if (taken.empty()) {
      findings.problems.push_back(start + " fits none of its interfaces (" + names +
                                  "): correct or unset it.");
    } else if (only_loopback && nodes.size() > 1) {
      findings.problems.push_back(start +
                                  " leaves only the loopback interface, which other hosts "
                                  "cannot reach (there are " +
                                  names + "): name the interface between the hosts.");
    }
  }
}

void check_filters(const std::vector<json>& ranks, Findings& findings) {
  std::set<std::string> missing;
  for (const json& filter : ranks[0].at("filters")) {
    if (!filter.at("usable").get<bool>()) missing.insert(text(filter, "name"));
  }
  if (missing.empty()) return;
  findings.warnings.push_back("HDF5 cannot read data compressed with " + joined(missing) +
                              " here: 'pip install hdf5plugin' and set HDF5_PLUGIN_PATH to its "
                              "plugins folder, if your files use them.");
}

}  // namespace

bool nccl_takes_interface(const std::string& setting, const std::string& name) {
  std::string rest = setting;
  const bool excludes = rest.starts_with('^');
  if (excludes) rest.erase(0, 1);
  const bool whole = rest.starts_with('=');
  if (whole) rest.erase(0, 1);
  std::istringstream parts(rest);
  bool fits = false;
  for (std::string part; std::getline(parts, part, ',');) {
    fits = fits || (whole ? name == part : !part.empty() && name.starts_with(part));
  }
  return fits != excludes;
}

Findings doctor_checks(const std::vector<json>& ranks) {
  Findings findings;
  check_versions(ranks, findings);
  check_gpus(ranks, findings);
  check_interfaces(ranks, findings);
  check_settings(ranks, findings);
  check_cpus(ranks, findings);
  check_shared_memory(ranks, findings);
  check_filters(ranks, findings);
  return findings;
}

}  // namespace longship::launcher
