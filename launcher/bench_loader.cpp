#include <ATen/cuda/CUDAContext.h>

#include <chrono>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "data/batch_loader.h"
#include "data/device_series.h"
#include "launcher/bench.h"
#include "launcher/parallel_command.h"
#include "runtime/agreement.h"
#include "runtime/dataset_setup.h"
#include "runtime/error.h"

namespace longship::launcher {
namespace {

using nlohmann::json;

// Windows a second that arrive on the device, one micro-batch after the other.
double windows_per_second(const std::shared_ptr<const data::Dataset>& dataset,
                          const runtime::Config& config, c10::Device device,
                          const data::DeviceSeries* series, double seconds) {
  const int64_t batch =
      config.train.micro_batch_size > 0 ? config.train.micro_batch_size : config.train.batch_size;
  data::LoaderPlan plan;
  plan.end_step = int64_t{1} << 40;
  plan.end_micro_batch = 1;
  plan.batch_size = batch;
  plan.micro_batch_size = batch;
  plan.end_position = int64_t{1} << 50;
  plan.rows_only = series != nullptr;
  const data::SampleOrder order(static_cast<uint64_t>(config.run.seed), dataset->fingerprint(),
                                dataset->windows(data::Split::kTrain), config.data.shuffle);
  data::BatchLoader loader(dataset, order, plan, device);
  at::Tensor past;
  at::Tensor target;
  if (series != nullptr) {
    past = series->make_past(batch);
    target = series->make_target(batch);
  }
  const auto take = [&] {
    const data::MicroBatch micro_batch = loader.next();
    if (series != nullptr) series->gather(micro_batch.first_rows, past, target);
  };
  const auto finish = [&] {
    if (device.is_cuda()) c10::cuda::getCurrentCUDAStream(device.index()).synchronize();
  };
  for (int i = 0; i < 10; ++i) take();
  constexpr int kBlocks = 5;
  std::vector<double> rates;
  for (int block = 0; block < kBlocks; ++block) {
    finish();
    const auto begin = std::chrono::steady_clock::now();
    std::chrono::duration<double> time{};
    int64_t taken = 0;
    while (time.count() < seconds / kBlocks) {
      for (int i = 0; i < 10; ++i) take();
      finish();
      taken += 10;
      time = std::chrono::steady_clock::now() - begin;
    }
    rates.push_back(static_cast<double>(taken * batch) / time.count());
  }
  return median(rates);
}

}  // namespace

int bench_loader(const std::vector<std::string>& words) {
  cxxopts::Options table("longship bench loader",
                         "Measures the windows a second that reach the training device, gathered "
                         "by the host and, on a GPU, cut out on the device.");
  add_bench_options(table);
  table.add_options()("seconds", "how long each takes (default: 3)", cxxopts::value<double>(), "S");
  BenchRequest request;
  const auto parsed = parse_bench(table, words, request);
  if (!parsed) return 0;
  const double seconds = parsed->count("seconds") > 0 ? (*parsed)["seconds"].as<double>() : 3;
  if (!(seconds > 0)) throw runtime::UsageError("--seconds must be more than 0");
  const bool as_json = request.as_json;
  const BenchFolder folder;
  const runtime::Config config =
      bench_config(request.path, request.preset, request.overrides, folder.path());
  constexpr std::chrono::seconds kTimeout(120);
  return run_parallel(kTimeout, [&](Session& session) {
    if (session.host->size() > 1) {
      throw runtime::AgreedError(runtime::ExitCode::kUsage,
                                 "bench loader measures one rank: start it with one");
    }
    connect_devices(session, "auto", kTimeout);
    const auto dataset = data::Dataset::open(runtime::dataset_spec(config));
    json results = json::array();
    const auto report = [&](const char* way, double rate) {
      results.push_back({{"gathered_by", way}, {"windows_per_s", rate}});
      if (!as_json) std::printf("gathered by the %-7s %12.0f windows/s\n", way, rate);
    };
    report("host", windows_per_second(dataset, config, session.device, nullptr, seconds));
    if (session.device.is_cuda()) {
      const data::DeviceSeries series(*dataset, session.device);
      report("device", windows_per_second(dataset, config, session.device, &series, seconds));
    }
    if (as_json) {
      std::cout << json{{"bench", "loader"}, {"results", results}} << "\n";
    }
    std::fflush(stdout);
    return 0;
  });
}

}  // namespace longship::launcher
