#include "launcher/device_binding.h"

#include <ATen/cuda/CUDAContextLight.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/util/Exception.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "comm/error.h"

namespace longship::launcher {
namespace {

std::string uuid(int index) {
  const cudaDeviceProp* properties = at::cuda::getDeviceProperties(index);
  std::string text;
  for (const char byte : properties->uuid.bytes) {
    char hex[3];
    std::snprintf(hex, sizeof hex, "%02x", static_cast<unsigned char>(byte));
    text += hex;
  }
  return text;
}

bool uses_gpu(const RankDevices& rank) {
  return rank.requested != "cpu" && !rank.gpus.empty();
}

std::string why_no_gpu(const RankDevices& rank) {
  if (rank.requested == "cpu") return "LONGSHIP_DEVICE=cpu";
  if (!rank.visible.empty()) return "CUDA_VISIBLE_DEVICES=" + rank.visible;
  return "no GPU or no driver";
}

std::string rank_on_host(const std::vector<RankDevices>& ranks, size_t rank) {
  return "Rank " + std::to_string(rank) + " on host " + ranks[rank].host;
}

[[noreturn]] void refuse(const std::string& message) {
  throw comm::CommError(comm::CommError::Kind::kSetup, message);
}

void check_each(const std::vector<RankDevices>& ranks) {
  for (size_t r = 0; r < ranks.size(); ++r) {
    const std::string& requested = ranks[r].requested;
    if (!requested.empty() && requested != "auto" && requested != "cpu" && requested != "cuda") {
      refuse(rank_on_host(ranks, r) + ": LONGSHIP_DEVICE=" + requested +
             " is not known; it may be auto, cpu or cuda.");
    }
    if (!ranks[r].failure.empty()) {
      refuse(rank_on_host(ranks, r) + " cannot use its GPUs: " + ranks[r].failure +
             ". See 'longship doctor', or train on CPUs with LONGSHIP_DEVICE=cpu.");
    }
    if (requested == "cuda" && ranks[r].gpus.empty()) {
      refuse(rank_on_host(ranks, r) + " sees no GPU (" + why_no_gpu(ranks[r]) +
             ") although LONGSHIP_DEVICE=cuda asks for one: see 'longship doctor'.");
    }
  }
}

void check_agreement(const std::vector<RankDevices>& ranks) {
  for (size_t r = 1; r < ranks.size(); ++r) {
    if (uses_gpu(ranks[r]) == uses_gpu(ranks[0])) continue;
    const size_t without = uses_gpu(ranks[0]) ? r : 0;
    const size_t with = uses_gpu(ranks[0]) ? 0 : r;
    refuse(rank_on_host(ranks, with) + " has a GPU, rank " + std::to_string(without) + " on host " +
           ranks[without].host + " has none (" + why_no_gpu(ranks[without]) +
           "): use hosts that all have GPUs, or CPUs everywhere with mpirun -x "
           "LONGSHIP_DEVICE=cpu.");
  }
}

[[noreturn]] void too_many_ranks(const std::vector<RankDevices>& ranks, size_t rank) {
  const RankDevices& own = ranks[rank];
  size_t count = 0;
  for (const RankDevices& other : ranks) {
    if (other.node == own.node && other.gpus == own.gpus) ++count;
  }
  const std::string gpus = std::to_string(own.gpus.size());
  refuse("Host " + own.host + ": " + std::to_string(count) + " ranks, " + gpus + " GPU" +
         (own.gpus.size() == 1 ? "" : "s") + " (CUDA_VISIBLE_DEVICES" +
         (own.visible.empty() ? " is not set" : "=" + own.visible) +
         "). NCCL wants a GPU for each rank: start at most " + gpus +
         " ranks on this host, make more GPUs visible, or share them with comm.backend=mpi "
         "(slow).");
}

}  // namespace

RankDevices visible_devices(int node, const std::string& host) {
  RankDevices result;
  result.node = node;
  result.host = host;
  if (const char* value = std::getenv("LONGSHIP_DEVICE"); value != nullptr) {
    result.requested = value;
  }
  if (const char* value = std::getenv("CUDA_VISIBLE_DEVICES"); value != nullptr) {
    result.visible = *value == '\0' ? "(empty)" : value;
  }
  if (result.requested == "cpu") return result;
  try {
    const c10::DeviceIndex count = c10::cuda::device_count();  // 0 without a driver
    for (c10::DeviceIndex index = 0; index < count; ++index) result.gpus.push_back(uuid(index));
  } catch (const c10::Error& error) {
    result.failure = error.what_without_backtrace();
  }
  return result;
}

nlohmann::json json_of(const RankDevices& devices) {
  return {{"node", devices.node},       {"host", devices.host}, {"requested", devices.requested},
          {"visible", devices.visible}, {"gpus", devices.gpus}, {"failure", devices.failure}};
}

RankDevices devices_of(const nlohmann::json& json) {
  RankDevices result;
  result.node = json.at("node").get<int>();
  result.host = json.at("host").get<std::string>();
  result.requested = json.at("requested").get<std::string>();
  result.visible = json.at("visible").get<std::string>();
  result.gpus = json.at("gpus").get<std::vector<std::string>>();
  result.failure = json.at("failure").get<std::string>();
  return result;
}

std::vector<int> choose_devices(const std::vector<RankDevices>& ranks, bool share) {
  check_each(ranks);
  check_agreement(ranks);
  std::vector<int> chosen(ranks.size(), -1);
  if (!uses_gpu(ranks.at(0))) return chosen;
  for (size_t r = 0; r < ranks.size(); ++r) {
    size_t place = 0;
    for (size_t before = 0; before < r; ++before) {
      if (ranks[before].node == ranks[r].node && ranks[before].gpus == ranks[r].gpus) ++place;
    }
    const size_t count = ranks[r].gpus.size();
    if (place >= count && !share) too_many_ranks(ranks, r);
    // NOLINTNEXTLINE(clang-analyzer-core.DivideZero): after check_agreement every rank has a GPU
    chosen[r] = static_cast<int>(place % count);
    if (share) continue;
    for (size_t before = 0; before < r; ++before) {
      const std::string& gpu = ranks[r].gpus[static_cast<size_t>(chosen[r])];
      if (ranks[before].node != ranks[r].node ||
          ranks[before].gpus[static_cast<size_t>(chosen[before])] != gpu) {
        continue;
      }
      refuse("Host " + ranks[r].host + ": ranks " + std::to_string(before) + " and " +
             std::to_string(r) + " would share one GPU (CUDA_VISIBLE_DEVICES " +
             ranks[before].visible + " and " + ranks[r].visible +
             "), which NCCL refuses: make each rank's visible GPUs either the same list or "
             "disjoint, or use comm.backend=mpi.");
    }
  }
  return chosen;
}

}  // namespace longship::launcher
