#include <ATen/Functions.h>
#include <ATen/cuda/CUDAContext.h>
#include <algorithm>

#include <chrono>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "launcher/arguments.h"
#include "launcher/bench.h"
#include "launcher/parallel_command.h"
#include "runtime/error.h"

namespace longship::launcher {
namespace {

using nlohmann::json;

// Seconds of one all-reduce: the median over blocks, each as long as its slowest rank takes.
double time_of(Session& session, const at::Tensor& tensor) {
  constexpr int kBlocks = 7;
  constexpr int64_t kBytesOfBlock = int64_t{64} << 20;
  const auto bytes = static_cast<int64_t>(tensor.nbytes());
  const int64_t repetitions = std::clamp<int64_t>(kBytesOfBlock / bytes, 3, 50);
  comm::Communicator& gradients = *session.gradients;
  const auto finish = [&] {
    if (tensor.is_cuda()) {
      c10::cuda::getCurrentCUDAStream(tensor.device().index()).synchronize();
    }
  };
  for (int i = 0; i < 3; ++i) gradients.all_reduce(tensor, comm::ReduceOp::kSum);
  std::vector<double> seconds;
  for (int block = 0; block < kBlocks; ++block) {
    finish();
    session.host->barrier();
    const auto begin = std::chrono::steady_clock::now();
    for (int64_t i = 0; i < repetitions; ++i) gradients.all_reduce(tensor, comm::ReduceOp::kSum);
    finish();
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    const at::Tensor slowest = at::full({1}, time.count(), at::kDouble);
    session.host->all_reduce(slowest, comm::ReduceOp::kMax);
    seconds.push_back(slowest.item<double>() / static_cast<double>(repetitions));
  }
  return median(seconds);
}

}  // namespace

int bench_allreduce(const std::vector<std::string>& words) {
  cxxopts::Options table("longship bench allreduce",
                         "Measures sums over all ranks, by size and type. Bus bandwidth is "
                         "2 (n - 1) / n of the bytes over the time, as nccl-tests count it.");
  table.custom_help("[OPTIONS]").positional_help("");
  table.add_options()("backend", "auto (default), nccl or mpi", cxxopts::value<std::string>(),
                      "NAME");
  table.add_options()("max-mib", "largest size (default: 256 on GPUs, 16 on CPUs)",
                      cxxopts::value<int64_t>(), "MIB");
  table.add_options()("json", "print one JSON object");
  table.add_options()("h,help", "print this help");
  const cxxopts::ParseResult parsed = parse_arguments(table, words);
  if (parsed.count("help") > 0) {
    std::cout << table.help({""});
    return 0;
  }
  const std::string backend = text_option(parsed, "backend", "auto");
  const bool as_json = parsed.count("json") > 0;
  const int64_t max_mib = parsed.count("max-mib") > 0 ? parsed["max-mib"].as<int64_t>() : 0;
  if (parsed.count("max-mib") > 0 && max_mib < 1) {
    throw runtime::UsageError("bench allreduce: --max-mib is at least 1");
  }
  constexpr std::chrono::seconds kTimeout(120);
  return run_parallel(kTimeout, [&](Session& session) {
    connect_devices(session, backend, kTimeout);
    const bool cuda = session.device.is_cuda();
    const int64_t most = (max_mib > 0 ? max_mib : cuda ? 256 : 16) << 20;
    const bool leader = session.host->rank() == 0;
    const int ranks = session.host->size();
    json results = json::array();
    if (leader && !as_json) {
      std::printf("all-reduce over %s, %d ranks\n     bytes  type       time us  bus GB/s\n",
                  session.gradients->backend().c_str(), ranks);
    }
    const std::vector<std::pair<at::ScalarType, const char*>> types = {
        {at::kFloat, "fp32"}, {at::kHalf, "fp16"}, {at::kBFloat16, "bf16"}};
    for (const auto& [type, name] : types) {
      for (int64_t bytes = 1024; bytes <= most; bytes *= 4) {
        const auto options = at::TensorOptions().dtype(type).device(session.device);
        const at::Tensor tensor =
            at::zeros({bytes / static_cast<int64_t>(c10::elementSize(type))}, options);
        const double seconds = time_of(session, tensor);
        const double bus = static_cast<double>(bytes) * 2 * (ranks - 1) / ranks / seconds / 1e9;
        results.push_back(
            {{"bytes", bytes}, {"type", name}, {"us", seconds * 1e6}, {"bus_gb_per_s", bus}});
        if (leader && !as_json) {
          std::printf("%10lld  %-8s %9.1f  %8.2f\n", static_cast<long long>(bytes), name,
                      seconds * 1e6, bus);
          std::fflush(stdout);
        }
      }
    }
    if (leader && as_json) {
      std::cout << json{{"bench", "allreduce"},
                        {"backend", session.gradients->backend()},
                        {"ranks", ranks},
                        {"results", results}}
                << "\n";
    }
    return 0;
  });
}

}  // namespace longship::launcher
