#include "runtime/implementation_choice.h"

#include <ATen/Functions.h>
#include <ATen/cuda/CUDAEvent.h>
#include <c10/core/GradMode.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>

#include "comm/text_collectives.h"
#include "runtime/agreement.h"
#include "runtime/step_graph.h"

namespace longship::runtime {
namespace {

constexpr int kWarmups = 3;  // libraries make their handles and workspaces
constexpr int kBlocks = 5;
constexpr int kPassesOfBlock = 5;

void pass(models::Forecaster& model, const models::Inputs& inputs, PrecisionMode precision) {
  const at::AutoGradMode differentiable(model.is_training());
  at::Tensor sum;
  {
    const AutocastGuard autocast(precision, inputs.past.device());
    sum = model.forward(inputs).values.sum();
  }
  if (!model.is_training()) return;
  std::vector<at::Tensor> parameters;
  for (const at::Tensor& parameter : model.parameters()) {
    if (parameter.requires_grad()) parameters.push_back(parameter);
  }
  torch::autograd::grad({sum}, parameters, /*grad_outputs=*/{}, /*retain_graph=*/false,
                        /*create_graph=*/false, /*allow_unused=*/true);
}

// Milliseconds of one run of `work`, the median of some blocks.
double median_ms(const std::function<void()>& work, c10::Device device) {
  std::vector<double> ms;
  for (int block = 0; block < kBlocks; ++block) {
    if (device.is_cuda()) {
      at::cuda::CUDAEvent begin(cudaEventDefault);
      at::cuda::CUDAEvent end(cudaEventDefault);
      begin.record();
      for (int i = 0; i < kPassesOfBlock; ++i) work();
      end.record();
      end.synchronize();
      ms.push_back(begin.elapsed_time(end) / kPassesOfBlock);
    } else {
      const auto begin = std::chrono::steady_clock::now();
      for (int i = 0; i < kPassesOfBlock; ++i) work();
      const std::chrono::duration<double, std::milli> took =
          std::chrono::steady_clock::now() - begin;
      ms.push_back(took.count() / kPassesOfBlock);
    }
  }
  std::nth_element(ms.begin(), ms.begin() + kBlocks / 2, ms.end());
  return ms[kBlocks / 2];
}

double time_one(const std::function<void()>& work, c10::Device device, bool as_graph) {
  for (int i = 0; i < kWarmups; ++i) work();
  std::unique_ptr<StepGraph> graph;
  if (as_graph && device.is_cuda()) {
    try {
      graph = std::make_unique<StepGraph>(StepGraph::make_pool(), device, work);
      graph->replay();
    } catch (const c10::OutOfMemoryError&) {
      throw;
    } catch (const std::exception&) {
      graph.reset();  // then a step cannot be one either
    }
  }
  return median_ms(graph ? [&] { graph->replay(); } : work, device);
}

}  // namespace

std::vector<TimedImplementation> time_implementations(models::Forecaster& model,
                                                      const models::Inputs& inputs,
                                                      PrecisionMode precision, bool as_graph,
                                                      const std::string& known) {
  const c10::Device device = inputs.past.device();
  std::vector<std::string> names;
  {
    const AutocastGuard autocast(precision, device);
    names = model.implementations(inputs);
  }
  if (std::find(names.begin(), names.end(), known) != names.end()) return {{known, 0}};
  std::vector<TimedImplementation> timed;
  for (const std::string& name : names) {
    model.use_implementation(name);
    TimedImplementation one{name, std::numeric_limits<double>::infinity()};
    try {
      one.ms = time_one([&] { pass(model, inputs, precision); }, device, as_graph);
    } catch (const c10::OutOfMemoryError&) {  // the others may do with less
    }
    timed.push_back(one);
  }
  if (!names.empty()) {
    model.use_implementation(names.front());
    if (device.is_cuda()) c10::cuda::CUDACachingAllocator::emptyCache();
  }
  return timed;
}

std::string fastest(const std::vector<TimedImplementation>& timed) {
  const auto found = std::min_element(timed.begin(), timed.end(),
                                      [](const auto& a, const auto& b) { return a.ms < b.ms; });
  return found == timed.end() ? "" : found->name;
}

std::string choice_text(const std::string& chosen, const std::vector<TimedImplementation>& timed) {
  std::string of_chosen;
  std::string others;
  for (const TimedImplementation& one : timed) {
    char ms[32];
    std::snprintf(ms, sizeof ms, "%.3g ms", one.ms);
    if (one.name == chosen) {
      of_chosen = ", " + std::string(ms);
    } else {
      others += (others.empty() ? " (" : ", ") + one.name + " " + ms;
    }
  }
  return chosen + of_chosen + others + (others.empty() ? "" : ")");
}

std::vector<TimedImplementation> agree_on_times(const std::vector<TimedImplementation>& mine,
                                                comm::Communicator& host) {
  nlohmann::json names = nlohmann::json::array();
  for (const TimedImplementation& one : mine) names.push_back(one.name);
  std::vector<nlohmann::json> of_ranks;
  for (const std::string& text : comm::all_gather_text(host, names.dump())) {
    of_ranks.push_back(nlohmann::json::parse(text));
  }
  // In rank 0's order, so that the ranks reduce the same numbers.
  std::vector<TimedImplementation> agreed;
  for (const nlohmann::json& entry : of_ranks.front()) {
    if (!std::all_of(of_ranks.begin(), of_ranks.end(), [&](const nlohmann::json& rank) {
          return std::find(rank.begin(), rank.end(), entry) != rank.end();
        })) {
      continue;
    }
    const auto name = entry.get<std::string>();
    const auto one = std::find_if(mine.begin(), mine.end(),
                                  [&](const auto& timed) { return timed.name == name; });
    const at::Tensor ms = at::full({1}, one->ms, at::kDouble);
    host.all_reduce(ms, comm::ReduceOp::kMax);
    agreed.push_back({one->name, ms.item<double>()});
  }
  return agreed;
}

std::vector<TimedImplementation> time_on_all_ranks(models::Forecaster& model, int64_t batch,
                                                   const models::ModelShape& shape,
                                                   PrecisionMode precision, bool as_graph,
                                                   c10::Device device, comm::Communicator& host,
                                                   const std::string& host_name,
                                                   const std::string& known) {
  std::vector<TimedImplementation> mine;
  collectively(host, host_name, [&] {
    models::Inputs inputs;
    inputs.past =
        at::full({batch, shape.window, shape.inputs}, 0.5, at::TensorOptions().device(device));
    mine = time_implementations(model, inputs, precision, as_graph, known);
  });
  return agree_on_times(mine, host);
}

}  // namespace longship::runtime
