#include "runtime/kernel_profile.h"

#include <torch/csrc/autograd/profiler_kineto.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>

namespace longship::runtime {

bool names_tensor_cores(const std::string& kernel) {
  // s16816 and the like: the shape of the mma instruction; nvjet: cuBLAS's own for Hopper;
  // tensorop: CUTLASS; xmma with a half or TF32 type: cuDNN and cuBLAS; fmha, flash: attention.
  constexpr std::array kSigns = {"s16816",        "s1688",        "h16816",         "h1688",
                                 "s884",          "h884",         "nvjet",          "tensorop",
                                 "wgmma",         "hmma",         "_f16f16",        "bf16bf16",
                                 "tf32f32",       "flash_fwd",    "flash_bwd",      "fmha",
                                 "tensor16x8x16", "tensor16x8x8", "_tn_align8>_fp8"};
  return std::any_of(kSigns.begin(), kSigns.end(),
                     [&](const char* sign) { return kernel.find(sign) != std::string::npos; });
}

KernelProfile profile_kernels(const std::function<void()>& work) {
  namespace profiler = torch::autograd::profiler;
  namespace impl = torch::profiler::impl;
  const impl::ProfilerConfig config(impl::ProfilerState::KINETO);
  const std::set<impl::ActivityType> activities = {impl::ActivityType::CUDA};
  profiler::prepareProfiler(config, activities);
  profiler::enableProfiler(config, activities);
  std::unique_ptr<profiler::ProfilerResult> result;
  try {
    work();
  } catch (...) {
    result = profiler::disableProfiler();
    throw;
  }
  result = profiler::disableProfiler();

  std::map<std::string, double> by_name;
  KernelProfile profile;
  for (const auto& event : result->events()) {
    const std::string name = event.name();
    const bool transfer = name.starts_with("Memcpy") || name.starts_with("Memset");
    if (event.deviceType() != c10::DeviceType::CUDA || transfer) continue;
    const double ms = static_cast<double>(event.durationNs()) * 1e-6;
    by_name[name] += ms;
    profile.kernel_ms += ms;
    if (names_tensor_cores(name)) profile.tensor_core_ms += ms;
  }
  if (by_name.empty()) throw std::runtime_error("the profiler saw no kernel of a GPU");
  profile.kernels.assign(by_name.begin(), by_name.end());
  std::sort(profile.kernels.begin(), profile.kernels.end(),
            [](const auto& a, const auto& b) { return a.second > b.second; });
  return profile;
}

}  // namespace longship::runtime
