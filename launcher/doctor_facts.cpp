#include "launcher/doctor_facts.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/cuda/CUDAContextLight.h>
#include <arpa/inet.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/util/Exception.h>
#include <cuda_runtime_api.h>
#include <ifaddrs.h>
#include <mpi.h>
#include <net/if.h>
#include <sys/statvfs.h>
#include <torch/version.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string_view>
#include <vector>

#include "comm/nccl_communicator.h"
#include "data/library.h"
#include "launcher/cpu_affinity.h"
#include "launcher/device_binding.h"
#include "slurm/job_environment.h"

namespace longship::launcher {
namespace {

using nlohmann::json;

// CUDA writes 13.0 as 13000; cuDNN 9.13.1 as 91301.
std::string cuda_number(int version) {
  if (version <= 0) return "";
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}
std::string cudnn_number(long version) {
  if (version <= 0) return "";
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

// The first word that looks like a version in the driver's own file, such as 580.65.06.
std::string driver_version() {
  std::ifstream file("/proc/driver/nvidia/version");
  std::string line;
  std::getline(file, line);
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    const bool plain = word.find_first_not_of("0123456789.") == std::string::npos;
    if (plain && word.find('.') != std::string::npos) return word;
  }
  return "";
}

json versions(const std::string& mpi_library) {
  int runtime = 0;
  int driver = 0;
  if (cudaRuntimeGetVersion(&runtime) != cudaSuccess) runtime = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess) driver = 0;
#if TORCH_VERSION_MINOR >= 11 || TORCH_VERSION_MAJOR > 2
  const long cudnn = at::globalContext().versionRuntimeCuDNN();
#else
  const long cudnn = at::globalContext().versionCuDNN();
#endif
  return {{"longship", LONGSHIP_VERSION},
          {"libtorch", TORCH_VERSION},
          {"mpi", mpi_library},
          {"hdf5", data::hdf5_version()},
          {"nccl", comm::nccl_version()},
          {"cudnn", cudnn_number(cudnn)},
          {"cuda", cuda_number(runtime)},
          {"driver", driver_version()},
          {"driver_cuda", cuda_number(driver)}};
}

json gpus(int count) {
  json list = json::array();
  for (int index = 0; index < count; ++index) {
    const cudaDeviceProp* properties = at::cuda::getDeviceProperties(index);
    list.push_back(
        {{"name", properties->name},
         {"compute_capability",
          std::to_string(properties->major) + "." + std::to_string(properties->minor)},
         {"memory_gib", static_cast<double>(properties->totalGlobalMem >> 20) / 1024.0}});
  }
  return list;
}

bool has_gpu_files() {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/dev", error)) {
    const std::string name = entry.path().filename();
    constexpr std::string_view kPrefix = "nvidia";
    if (name.starts_with(kPrefix) && name.size() > kPrefix.size() &&
        name.find_first_not_of("0123456789", kPrefix.size()) == std::string::npos) {
      return true;
    }
  }
  return false;
}

json shared_memory() {
  struct statvfs status {};
  if (statvfs("/dev/shm", &status) != 0) return nullptr;
  const auto mib = [&](fsblkcnt_t blocks) {
    return static_cast<int64_t>(blocks * status.f_frsize >> 20);
  };
  return {{"total_mib", mib(status.f_blocks)}, {"free_mib", mib(status.f_bavail)}};
}

json interfaces() {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return json::array();
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(first, freeifaddrs);
  json list = json::array();
  for (const int family : {AF_INET, AF_INET6}) {
    for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
      if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != family) continue;
      if ((entry->ifa_flags & IFF_UP) == 0) continue;
      const void* address =
          family == AF_INET ? static_cast<const void*>(
                                  &reinterpret_cast<const sockaddr_in*>(entry->ifa_addr)->sin_addr)
                            : &reinterpret_cast<const sockaddr_in6*>(entry->ifa_addr)->sin6_addr;
      std::array<char, INET6_ADDRSTRLEN> text{};
      if (inet_ntop(family, address, text.data(), text.size()) == nullptr) continue;
      list.push_back({{"name", entry->ifa_name},
                      {"address", text.data()},
                      {"loopback", (entry->ifa_flags & IFF_LOOPBACK) != 0}});
    }
  }
  return list;
}

json filters() {
  json list = json::array();
  for (const data::Filter& filter : data::hdf5_filters()) {
    list.push_back({{"id", filter.id}, {"name", filter.name}, {"usable", filter.usable}});
  }
  return list;
}

json environment() {
  constexpr std::array<std::string_view, 9> kPrefixes = {
      "NCCL_", "CUDA_", "LONGSHIP_", "OMP_", "HDF5_", "UCX_", "TORCH_", "MKL_", "LD_LIBRARY_PATH"};
  json found = json::object();
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const size_t mark = text.find('=');
    if (mark == std::string_view::npos) continue;
    if (std::any_of(kPrefixes.begin(), kPrefixes.end(),
                    [&](std::string_view prefix) { return text.starts_with(prefix); })) {
      found[std::string(text.substr(0, mark))] = text.substr(mark + 1);
    }
  }
  return found;
}

json slurm_facts() {
  const auto job = slurm::job_environment();
  if (!job) return nullptr;
  const auto or_null = [](const auto& value) -> json {
    if (!value) return nullptr;
    return *value;
  };
  return {{"job_id", job->job_id},
          {"job_name", job->job_name},
          {"node_list", job->node_list},
          {"nodes", or_null(job->nodes)},
          {"tasks", or_null(job->tasks)},
          {"cpus_per_task", or_null(job->cpus_per_task)},
          {"step_cpus_per_task", or_null(job->step_cpus_per_task)},
          {"restarts", job->restarts}};
}

}  // namespace

std::string built_mpi_library() {
#ifdef OPEN_MPI
  return "Open MPI " + std::to_string(OMPI_MAJOR_VERSION) + "." +
         std::to_string(OMPI_MINOR_VERSION) + "." + std::to_string(OMPI_RELEASE_VERSION) +
         " (built with; not started)";
#else
  return "MPI " + std::to_string(MPI_VERSION) + "." + std::to_string(MPI_SUBVERSION) +
         " (built with; not started)";
#endif
}

json doctor_facts(const Session& session, const std::string& mpi_library) {
  const RankDevices devices =
      visible_devices(session.mpi ? session.mpi->node() : 0, session.host_name);
  const std::vector<int> cpus = allowed_cpus();
  return {{"host", session.host_name},
          {"node", devices.node},
          {"local_rank", session.local_rank},
          {"local_size", session.local_size},
          {"versions", versions(mpi_library)},
          {"gpus", gpus(static_cast<int>(devices.gpus.size()))},
          {"gpu_failure", devices.failure},
          {"gpu_files", has_gpu_files()},
          {"devices", json_of(devices)},
          {"cpus",
           {{"list", cpu_list(cpus)}, {"count", cpus.size()}, {"threads", at::get_num_threads()}}},
          {"shared_memory", shared_memory()},
          {"interfaces", interfaces()},
          {"filters", filters()},
          {"environment", environment()},
          {"slurm", slurm_facts()}};
}

}  // namespace longship::launcher
