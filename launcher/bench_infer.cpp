#include <ATen/Functions.h>
#include <ATen/cuda/CUDAContext.h>

#include <chrono>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "launcher/bench.h"
#include "launcher/parallel_command.h"
#include "runtime/agreement.h"
#include "runtime/error.h"
#include "runtime/forward_graph.h"
#include "runtime/model_setup.h"

namespace longship::launcher {
namespace {

using nlohmann::json;
using runtime::PrecisionMode;

constexpr int kWarmup = 10;
constexpr int kIterations = 100;
constexpr int kBlock = 10;  // iterations between two looks at the clock

void finish(c10::Device device) {
  if (device.is_cuda()) c10::cuda::getCurrentCUDAStream(device.index()).synchronize();
}

json measure(const runtime::Config& config, PrecisionMode precision, int64_t batch,
             c10::Device device) {
  runtime::apply_precision(precision, device);
  const std::shared_ptr<models::Forecaster> model = runtime::make_model(config);
  model->to(device);
  runtime::ForwardGraph forward(*model, batch, runtime::model_shape(config), precision, device);
  forward.past().normal_();
  for (int i = 0; i < kWarmup; ++i) forward.run();
  std::vector<double> ms;
  for (int done = 0; done < kIterations; done += kBlock) {
    finish(device);
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kBlock; ++i) forward.run();
    finish(device);
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - begin;
    ms.push_back(time.count() / kBlock);
  }
  const double middle = median(ms);
  json result = {{"precision", runtime::to_string(precision)},
                 {"batch", batch},
                 {"graph", forward.recorded() ? "on" : "off"},
                 {"ms", middle},
                 {"samples_per_s", 1e3 * static_cast<double>(batch) / middle}};
  if (!forward.implementation().empty()) result["implementation"] = forward.implementation();
  return result;
}

std::vector<PrecisionMode> precisions_of(c10::Device device) {
  if (device.is_cuda()) {
    return {PrecisionMode::kFp32, PrecisionMode::kTf32, PrecisionMode::kFp16, PrecisionMode::kBf16};
  }
  return {PrecisionMode::kFp32, PrecisionMode::kBf16};
}

}  // namespace

int bench_infer(const std::vector<std::string>& words) {
  cxxopts::Options table(
      "longship bench infer",
      "Measures forward passes at batches of 32, 64, 128, 256 and 512: 10 to "
      "warm up, 100 timed, in each precision that the device has: fp32, tf32, fp16 "
      "and bf16 on a GPU, fp32 and bf16 on a CPU.");
  add_bench_options(table);
  BenchRequest request;
  if (!parse_bench(table, words, request)) return 0;
  const BenchFolder folder;
  const runtime::Config config =
      bench_config(request.path, request.preset, request.overrides, folder.path());
  const bool as_json = request.as_json;
  for (const std::string& word : request.overrides) {
    if (word.starts_with("precision.mode=")) {
      throw runtime::UsageError("bench infer measures each precision: leave --set " + word +
                                " out");
    }
  }
  const std::chrono::seconds timeout(config.comm.timeout_s);
  return run_parallel(timeout, [&](Session& session) {
    if (session.host->size() > 1) {
      throw runtime::AgreedError(runtime::ExitCode::kUsage,
                                 "bench infer measures one GPU: start it with one rank");
    }
    connect_devices(session, "auto", timeout);
    json results = json::array();
    if (!as_json) std::printf("precision  batch  graph        ms   samples/s\n");
    for (const PrecisionMode precision : precisions_of(session.device)) {
      for (const int64_t batch : {32, 64, 128, 256, 512}) {
        const json result = measure(config, precision, batch, session.device);
        results.push_back(result);
        if (as_json) continue;
        std::printf("%-9s %6lld  %-5s %9.4f %11.0f  %s\n", runtime::to_string(precision),
                    static_cast<long long>(batch), result["graph"].get<std::string>().c_str(),
                    result["ms"].get<double>(), result["samples_per_s"].get<double>(),
                    result.value("implementation", "").c_str());
        std::fflush(stdout);
      }
    }
    if (as_json) {
      std::cout << json{{"bench", "infer"}, {"model", config.model.name}, {"results", results}}
                << "\n";
    }
    return 0;
  });
}

}  // namespace longship::launcher
