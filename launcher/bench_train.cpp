#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDACachingAllocator.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "launcher/bench.h"
#include "launcher/parallel_command.h"
#include "launcher/training_setup.h"
#include "runtime/agreement.h"
#include "runtime/dataset_setup.h"
#include "runtime/device_memory.h"
#include "runtime/kernel_profile.h"
#include "runtime/model_setup.h"
#include "runtime/trainer.h"

namespace longship::launcher {
namespace {

using nlohmann::json;
using runtime::Config;

constexpr int64_t kBlock = 25;  // steps between two looks at the clock

class RecordsInMemory : public runtime::MetricSink {
 public:
  void write(const runtime::MetricRecord& record) override { records.push_back(record); }
  std::vector<runtime::MetricRecord> records;
};

struct TrainBench {
  BenchRequest request;
  int64_t steps = 0;
  int64_t warmup = 0;
  bool profile = false;
};

// One training of `steps` steps with nothing but steps in it.
struct Training {
  std::vector<runtime::MetricRecord> records;
  bool graph = false;
  std::string implementation;  // of the model, where it was chosen
  std::vector<int64_t> bucket_elements;
};

Training train(Config config, int64_t steps, runtime::Context& context,
               const std::shared_ptr<const data::Dataset>& dataset,
               runtime::PrecisionMode precision, const std::string& implementation = {}) {
  config.train.steps = steps;
  config.train.epochs = 0;
  config.eval.every_epochs = 0;
  config.eval.every_steps = 0;
  config.checkpoint.every_minutes = 0;
  config.checkpoint.every_steps = 0;
  config.checkpoint.at_start = false;
  config.log.every_steps = kBlock;
  std::shared_ptr<models::Forecaster> model;
  runtime::BatchPlan plan;
  runtime::collectively(context.host, context.host_name, [&] {
    model = runtime::make_model(config);
    model->to(context.device);
    model->on_device();
  });
  const int64_t micro = settle_micro_batch_size(config, std::nullopt, *model, 0, context);
  runtime::collectively(context.host, context.host_name, [&] {
    plan = runtime::make_batch_plan(config.train, micro, dataset->windows(data::Split::kTrain),
                                    context.rank(), context.size());
  });
  RecordsInMemory sink;
  runtime::TrainerParts parts{.context = context,
                              .config = config,
                              .dataset = dataset,
                              .model = model,
                              .plan = plan,
                              .precision = precision};
  parts.implementation = implementation;
  runtime::Trainer trainer(parts);
  if (context.leader()) trainer.report_to({&sink}, nullptr);
  trainer.run();
  Training result{sink.records, trainer.runs_as_graph(), trainer.implementation(), {}};
  result.bucket_elements.reserve(trainer.reducer().layout().size());
  for (const comm::BucketLayout& bucket : trainer.reducer().layout()) {
    result.bucket_elements.push_back(bucket.elements);
  }
  return result;
}

// Milliseconds that a step's all-reduces take with nothing else going on: the median of some
// repetitions, each as long as its slowest rank takes.
double all_reduce_ms(const std::vector<int64_t>& bucket_elements, const std::string& wire,
                     runtime::Context& context) {
  constexpr int kRepetitions = 20;
  const at::ScalarType type = wire == "fp16"   ? at::kHalf
                              : wire == "bf16" ? at::kBFloat16
                                               : at::kFloat;
  std::vector<at::Tensor> buckets;
  buckets.reserve(bucket_elements.size());
  for (const int64_t elements : bucket_elements) {
    buckets.push_back(
        at::zeros({elements}, at::TensorOptions().dtype(type).device(context.device)));
  }
  const auto wait_for_device = [&] {
    if (context.device.is_cuda()) {
      at::cuda::getCurrentCUDAStream(context.device.index()).synchronize();
    }
  };
  std::vector<double> times;
  for (int repetition = 0; repetition < kRepetitions; ++repetition) {
    context.host.barrier();
    const auto begin = std::chrono::steady_clock::now();
    std::vector<std::unique_ptr<comm::Work>> works;
    works.reserve(buckets.size());
    for (const at::Tensor& bucket : buckets) {
      works.push_back(context.gradients.all_reduce_async(bucket, comm::ReduceOp::kSum));
    }
    for (const auto& work : works) work->wait();
    wait_for_device();
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    const at::Tensor slowest = at::full({1}, took.count(), at::kDouble);
    context.host.all_reduce(slowest, comm::ReduceOp::kMax);
    times.push_back(slowest.item<double>());
  }
  return median(times);
}

json measure(const TrainBench& bench, const Config& config, Session& session) {
  const std::shared_ptr<spdlog::logger> log =
      std::make_shared<spdlog::logger>("bench");  // no sinks: quiet
  runtime::Context context{*session.host,  *session.votes,    *session.gradients,
                           session.device, session.host_name, log};
  const auto precision =
      runtime::resolve_precision(config.precision.mode, context.device, context.host);
  runtime::apply_precision(precision, context.device);
  std::shared_ptr<const data::Dataset> dataset;
  runtime::collectively(context.host, context.host_name,
                        [&] { dataset = data::Dataset::open(runtime::dataset_spec(config)); });
  const bool cuda = context.device.is_cuda();
  if (cuda) c10::cuda::CUDACachingAllocator::resetPeakStats(context.device.index());
  const Training training = train(config, bench.warmup + bench.steps, context, dataset, precision);
  json result = {{"bench", "train"},
                 {"model", config.model.name},
                 {"precision", runtime::to_string(precision)},
                 {"wire", config.comm.wire},
                 {"backend", context.gradients.backend()},
                 {"ranks", context.size()},
                 {"batch_size", config.train.batch_size},
                 {"graph", training.graph ? "on" : "off"},
                 {"devices", describe_devices(context)}};
  if (!training.implementation.empty()) result["implementation"] = training.implementation;
  std::vector<double> step_ms;
  std::vector<double> exposed_ms;
  for (const runtime::MetricRecord& record : training.records) {
    // The last block holds the end of the run.
    if (record.step <= bench.warmup || record.step == bench.warmup + bench.steps) continue;
    step_ms.push_back(1e3 * static_cast<double>(config.train.batch_size) / record.samples_per_s);
    exposed_ms.push_back(record.exposed_comm_ms);
  }
  const double ms = median(step_ms);
  result["step_ms"] = ms;
  if (!step_ms.empty()) {
    result["step_ms_least"] = *std::min_element(step_ms.begin(), step_ms.end());
    result["step_ms_most"] = *std::max_element(step_ms.begin(), step_ms.end());
  }
  result["samples_per_s"] = 1e3 * static_cast<double>(config.train.batch_size) / ms;
  result["exposed_comm_ms"] = median(exposed_ms);
  if (context.size() > 1) {
    const double alone = all_reduce_ms(training.bucket_elements, config.comm.wire, context);
    result["all_reduce_ms"] = alone;
    result["hidden_share"] = std::max(0.0, 1 - median(exposed_ms) / alone);
  }
  // Backward costs twice the forward.
  constexpr double kForwards = 3;
  const double flops =
      runtime::make_model(config, runtime::Weights::kAny)->forward_flops() * kForwards;
  if (flops > 0) {
    result["tflops_per_s_and_rank"] =
        flops * static_cast<double>(config.train.batch_size) / (ms * 1e-3) / 1e12 / context.size();
  }
  if (cuda) {
    result["peak_device_mib"] =
        static_cast<double>(runtime::peak_device_memory(context.device)) / (1 << 20);
  }
  if (cuda && bench.profile) {
    constexpr int64_t kProfiled = 2 * kBlock;
    const runtime::KernelProfile profile = runtime::profile_kernels(
        [&] { train(config, kProfiled, context, dataset, precision, training.implementation); });
    json kernels = json::array();
    for (const auto& [name, kernel_ms] : profile.kernels) {
      if (kernels.size() == 15) break;
      kernels.push_back({{"name", name},
                         {"ms_per_step", kernel_ms / kProfiled},
                         {"tensor_core", runtime::names_tensor_cores(name)}});
    }
    result["kernels"] = {{"ms_per_step", profile.kernel_ms / kProfiled},
                         {"tensor_core_share", profile.tensor_core_ms / profile.kernel_ms},
                         {"tensor_core_share_by", "kernel names"},
                         {"most", kernels}};
  }
  return result;
}

void print(const json& result) {
  const auto line = [](const char* name, const std::string& text) {
    std::printf("%-22s %s\n", name, text.c_str());
  };
  const auto number = [](const json& value, const char* format) {
    char text[64];
    std::snprintf(text, sizeof text, format, value.get<double>());
    return std::string(text);
  };
  line("model", result["model"].get<std::string>() + ", batch " +
                    std::to_string(result["batch_size"].get<int64_t>()) + ", " +
                    result["precision"].get<std::string>() + ", wire " +
                    result["wire"].get<std::string>() + " over " +
                    result["backend"].get<std::string>());
  line("devices", result["devices"]);
  line("graph", result["graph"]);
  if (result.contains("implementation")) line("computed by", result["implementation"]);
  line("step",
       number(result["step_ms"], "%.4g ms (median") +
           (result.contains("step_ms_least") ? number(result["step_ms_least"], "; %.4g") +
                                                   number(result["step_ms_most"], " to %.4g)")
                                             : ")"));
  line("samples/s", number(result["samples_per_s"], "%.0f"));
  line("exposed communication", number(result["exposed_comm_ms"], "%.4g ms a step"));
  if (result.contains("all_reduce_ms")) {
    line("all-reduces alone", number(result["all_reduce_ms"], "%.4g ms a step") +
                                  number(json(100 * result["hidden_share"].get<double>()),
                                         ", of which %.0f %% is hidden behind backward"));
  }
  if (result.contains("tflops_per_s_and_rank")) {
    line("achieved", number(result["tflops_per_s_and_rank"], "%.3g TFLOP/s a rank"));
  }
  if (result.contains("peak_device_mib")) {
    line("peak device memory", number(result["peak_device_mib"], "%.0f MiB"));
  }
  if (result.contains("kernels")) {
    const json& kernels = result["kernels"];
    line("kernels", number(kernels["ms_per_step"], "%.4g ms a step"));
    const double share = 100 * kernels["tensor_core_share"].get<double>();
    line("Tensor Core kernels", number(json(share), "%.0f %% of kernel time (by kernel names)"));
    for (const json& kernel : kernels["most"]) {
      std::printf("  %8.1f us %s %s\n", 1e3 * kernel["ms_per_step"].get<double>(),
                  kernel["tensor_core"].get<bool>() ? "TC" : "  ",
                  kernel["name"].get<std::string>().substr(0, 100).c_str());
    }
  }
}

}  // namespace

int bench_train(const std::vector<std::string>& words) {
  cxxopts::Options table("longship bench train",
                         "Measures optimizer steps, without evaluation and checkpoints.");
  add_bench_options(table);
  table.add_options()("steps", "steps to measure (default: 400, at least 75)",
                      cxxopts::value<int64_t>(), "N");
  table.add_options()("warmup", "steps before them (default: 100, at least 25)",
                      cxxopts::value<int64_t>(), "N");
  table.add_options()("profile", "also tell where the GPU's time goes, from a second, short run");
  TrainBench bench;
  const auto options = parse_bench(table, words, bench.request);
  if (!options) return 0;
  const cxxopts::ParseResult& parsed = *options;
  bench.steps = parsed.count("steps") > 0 ? parsed["steps"].as<int64_t>() : 400;
  bench.warmup = parsed.count("warmup") > 0 ? parsed["warmup"].as<int64_t>() : 100;
  if (bench.steps < 3 * kBlock || bench.warmup < kBlock) {
    throw runtime::UsageError("bench train: --steps is at least " + std::to_string(3 * kBlock) +
                              " and --warmup at least " + std::to_string(kBlock));
  }
  bench.profile = parsed.count("profile") > 0;

  const BenchFolder series;
  const Config config = bench_config(bench.request.path, bench.request.preset,
                                     bench.request.overrides, series.path());
  const std::chrono::seconds timeout(config.comm.timeout_s);
  return run_parallel(timeout, [&](Session& session) {
    connect_devices(session, config.comm.backend, timeout);
    if (bench.profile && !session.device.is_cuda()) {
      throw runtime::AgreedError(runtime::ExitCode::kUsage,
                                 "bench train: --profile needs a GPU, and this runs on CPUs");
    }
    const json result = measure(bench, config, session);
    if (session.host->rank() == 0) {
      if (bench.request.as_json) {
        std::cout << result.dump() << "\n";
      } else {
        print(result);
        std::fflush(stdout);
      }
    }
    return 0;
  });
}

}  // namespace longship::launcher
