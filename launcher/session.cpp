#include "launcher/session.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <mpi.h>

#include <cstddef>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "comm/error.h"
#include "comm/host_name.h"
#include "comm/local_communicator.h"
#include "comm/nccl_communicator.h"
#include "comm/text_collectives.h"
#include "launcher/cpu_affinity.h"
#include "launcher/device_binding.h"
#include "launcher/json_text.h"
#include "launcher/launch_environment.h"
#include "launcher/process_memory.h"

namespace longship::launcher {
namespace {

using comm::CommError;

const char* variable(const char* name) {
  return std::getenv(name);
}

// Without PMI, Open MPI's MPI_Init ends the process with a text of its own, so the guard must come
// before it. Other MPI libraries can get their ranks from Slurm without any variable.
void refuse_srun_without_pmi(const LaunchEnvironment& environment) {
#ifdef OPEN_MPI
  if (!environment.slurm_step || environment.has_pmi) return;
  if (const auto message = launcher_mismatch(environment, 1, "Open MPI", variable)) {
    throw CommError(CommError::Kind::kSetup, *message);
  }
#else
  static_cast<void>(environment);
#endif
}

int node_of(const Session& session) {
  return session.mpi ? session.mpi->node() : 0;
}

// The number of threads of LibTorch's operations. OMP_NUM_THREADS, which LibTorch obeys, wins.
void set_threads(Session& session) {
  const std::vector<int> cpus = allowed_cpus();
  const nlohmann::json own{{"node", node_of(session)}, {"cpus", cpu_list(cpus)}};
  std::vector<RankCpus> ranks;
  for (const std::string& text : comm::all_gather_text(*session.host, own.dump())) {
    const nlohmann::json json = nlohmann::json::parse(text);
    ranks.push_back({json.at("node").get<int>(), json.at("cpus").get<std::string>()});
  }
  // Asked for only now: the variable may be there on some hosts, and the gathering is for all.
  if (std::getenv("OMP_NUM_THREADS") != nullptr) return;
  at::set_num_threads(threads_of_rank(ranks, session.host->rank(), static_cast<int>(cpus.size())));
}

// Containers may all have one name: then messages carry the node's number too.
void tell_hosts_apart(std::vector<RankDevices>& ranks) {
  std::map<std::string, std::set<int>> nodes;
  for (const RankDevices& rank : ranks) nodes[rank.host].insert(rank.node);
  for (RankDevices& rank : ranks) {
    if (nodes.at(rank.host).size() > 1) rank.host += " (node " + std::to_string(rank.node) + ")";
  }
}

}  // namespace

int rank_by_environment() {
  return launch_environment().rank;
}

Session::~Session() {
  gradients.reset();
  votes.reset();
  host.reset();
  mpi.reset();
}

std::unique_ptr<Session> start_session(std::chrono::seconds timeout) {
  auto session = std::make_unique<Session>();
  const LaunchEnvironment environment = launch_environment();
  if (environment.variable.empty()) {
    session->host = comm::make_local_communicator();
    session->votes = comm::make_local_communicator();
    session->host_name = comm::host_name();
  } else {
    refuse_srun_without_pmi(environment);
    session->mpi = std::make_unique<comm::MpiRuntime>(timeout);
    const comm::MpiRuntime& mpi = *session->mpi;
    if (const auto message =
            launcher_mismatch(environment, mpi.size(), mpi.library_version(), variable)) {
      throw CommError(CommError::Kind::kSetup, *message);
    }
    session->host = session->mpi->make_communicator();
    session->votes = session->mpi->make_communicator();
    session->local_rank = mpi.local_rank();
    session->local_size = mpi.local_size();
    session->host_name = mpi.host();
  }
  set_threads(*session);
  return session;
}

void bind_device(Session& session, const std::string& backend) {
  if (backend != "auto" && backend != "nccl" && backend != "mpi") {
    throw CommError(CommError::Kind::kSetup,
                    "comm.backend=" + backend + " is not known: it may be auto, nccl or mpi.");
  }
  std::vector<RankDevices> ranks;
  const RankDevices own = visible_devices(node_of(session), session.host_name);
  for (const std::string& text : comm::all_gather_text(*session.host, text_of(json_of(own)))) {
    ranks.push_back(devices_of(nlohmann::json::parse(text)));
  }
  tell_hosts_apart(ranks);
  const std::vector<int> chosen = choose_devices(ranks, backend == "mpi");
  const int index = chosen.at(static_cast<size_t>(session.host->rank()));
  session.device = c10::Device(c10::kCPU);
  if (index >= 0) {
    c10::cuda::set_device(static_cast<c10::DeviceIndex>(index));
    // Otherwise done by the first tensor, and questions about memory before it would be errors.
    at::globalContext().lazyInitDevice(c10::kCUDA);
    session.device = c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(index));
    // All of this thread's work: a step cannot be recorded as a graph on CUDA's default stream.
    c10::cuda::setCurrentCUDAStream(
        c10::cuda::getStreamFromPool(/*isHighPriority=*/false, session.device.index()));
  } else {
    keep_freed_memory();
  }
}

void connect_gradients(Session& session, const std::string& backend, std::chrono::seconds timeout) {
  if (backend == "nccl" && !session.device.is_cuda()) {
    throw CommError(CommError::Kind::kSetup,
                    "comm.backend=nccl needs a GPU for each rank, and host " + session.host_name +
                        " has none visible: use comm.backend=auto or mpi, or see "
                        "'longship doctor'.");
  }
  const bool alone = session.host->size() == 1;
  if (backend == "nccl" || (backend == "auto" && session.device.is_cuda() && !alone)) {
    session.gradients =
        comm::make_nccl_communicator(*session.host, session.device.index(), timeout);
  } else if (session.mpi == nullptr || (backend == "auto" && alone)) {
    // One rank needs no library for its sums; without a launcher MPI is not even started.
    session.gradients = comm::make_local_communicator();
  } else {
    session.gradients = session.mpi->make_communicator();
  }
}

}  // namespace longship::launcher
