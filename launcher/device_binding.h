#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace longship::launcher {

// What one rank sees of GPUs before it chose one. Equal on all ranks after it was gathered, so that
// every rank comes to the same choice and to the same error.
struct RankDevices {
  int node = 0;  // 0-based number of the machine (by shared memory, not by name)
  std::string host;
  std::string requested;  // LONGSHIP_DEVICE: auto (also ""), cpu or cuda
  std::string visible;    // CUDA_VISIBLE_DEVICES; "" when not set, "(empty)" when set to nothing
  std::vector<std::string> gpus;  // identities (UUIDs) of the visible GPUs, in CUDA's order
  std::string failure;            // why the GPUs could not be asked; "" otherwise
};

// What this process sees. Counts the GPUs without choosing one; makes no CUDA context. Does not
// throw for what is wrong here: choose_devices() does, on all ranks, after the gathering.
RankDevices visible_devices(int node, const std::string& host);

// All of it as a JSON object, to be gathered and shown, and back.
nlohmann::json json_of(const RankDevices& devices);
RankDevices devices_of(const nlohmann::json& json);

// The GPU of each rank, an index among those it sees; -1 everywhere: CPUs.
// A rank takes, among the GPUs it sees, the one at its place in the line of the node's ranks that
// see the same GPUs: local rank where all see all, 0 where each sees its own. share: several ranks
// may use one GPU (backend "mpi"; NCCL refuses that). Throws CommError (kSetup), naming hosts,
// ranks, GPUs and the remedy: an unknown LONGSHIP_DEVICE; some ranks with and some without GPUs;
// more ranks than GPUs on a node; two ranks on one GPU.
std::vector<int> choose_devices(const std::vector<RankDevices>& ranks, bool share);

}  // namespace longship::launcher
