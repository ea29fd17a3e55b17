#include "runtime/precision.h"

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <ATen/cuda/CUDAContext.h>

#include "runtime/error.h"

namespace longship::runtime {
namespace {

// 10 * major + minor; 0 for a CPU.
int64_t compute_capability(c10::Device device) {
  if (!device.is_cuda()) {
    return 0;
  }
  const cudaDeviceProp* properties = at::cuda::getDeviceProperties(device.index());
  return 10 * properties->major + properties->minor;
}

}  // namespace

const char* to_string(PrecisionMode mode) {
  switch (mode) {
    case PrecisionMode::kFp32:
      return "fp32";
    case PrecisionMode::kTf32:
      return "tf32";
    case PrecisionMode::kBf16:
      return "bf16";
    case PrecisionMode::kFp16:
      return "fp16";
    case PrecisionMode::kFp8:
      return "fp8";
  }
  return "?";
}

PrecisionMode resolve_precision(const std::string& mode, c10::Device device,
                                comm::Communicator& host) {
  const at::Tensor lowest = at::full({1}, compute_capability(device), at::kLong);
  host.all_reduce(lowest, comm::ReduceOp::kMin);
  const int64_t capability = lowest.item<int64_t>();
  if (mode == "auto") {
    return capability == 0    ? PrecisionMode::kFp32
           : capability >= 80 ? PrecisionMode::kBf16
                              : PrecisionMode::kFp16;
  }
  if (mode == "fp32") {
    return PrecisionMode::kFp32;
  }
  if (mode == "fp16") {
    return PrecisionMode::kFp16;
  }
  if (mode == "fp8") {
    if (capability >= 90) return PrecisionMode::kFp8;
    throw Error(ExitCode::kSetup,
                "precision.mode fp8 needs GPUs of compute capability 9.0, but " +
                    (capability == 0 ? std::string("this run trains on CPUs")
                                     : "one of this run has " + std::to_string(capability / 10) +
                                           "." + std::to_string(capability % 10)) +
                    ": use bf16 or auto");
  }
  if (device.is_cuda() && capability < 80) {
    throw Error(ExitCode::kSetup, "precision.mode " + mode +
                                      " needs GPUs of compute capability 8.0, but one of this run "
                                      "has " +
                                      std::to_string(capability / 10) + "." +
                                      std::to_string(capability % 10) + ": use fp16 or fp32");
  }
  if (mode == "tf32" && !device.is_cuda()) {
    throw Error(ExitCode::kSetup, "precision.mode tf32 needs a GPU: use fp32 or auto on CPUs");
  }
  return mode == "tf32" ? PrecisionMode::kTf32 : PrecisionMode::kBf16;
}

void apply_precision(PrecisionMode mode, c10::Device device) {
  const bool tf32 = mode != PrecisionMode::kFp32;
  if (device.is_cuda()) {
    at::globalContext().setAllowTF32CuBLAS(tf32);
    at::globalContext().setAllowTF32CuDNN(tf32);
  } else if (mode == PrecisionMode::kFp16) {
    at::globalContext().setUserEnabledMkldnn(false);
  }
}

AutocastGuard::AutocastGuard(PrecisionMode mode, c10::Device device)
    : active_(mode == PrecisionMode::kBf16 || mode == PrecisionMode::kFp16 ||
              mode == PrecisionMode::kFp8),
      device_type_(device.type()) {
  if (active_) {
    was_enabled_ = at::autocast::is_autocast_enabled(device_type_);
    previous_type_ = at::autocast::get_autocast_dtype(device_type_);
    at::autocast::set_autocast_dtype(device_type_,
                                     mode == PrecisionMode::kFp16 ? at::kHalf : at::kBFloat16);
    at::autocast::set_autocast_enabled(device_type_, true);
    at::autocast::increment_nesting();
  }
}

AutocastGuard::~AutocastGuard() {
  if (active_) {
    // The cast copies of the weights are good for one forward: the optimizer changes the masters.
    if (at::autocast::decrement_nesting() == 0) {
      at::autocast::clear_cache();
    }
    at::autocast::set_autocast_enabled(device_type_, was_enabled_);
    at::autocast::set_autocast_dtype(device_type_, previous_type_);
  }
}

LossScaler::LossScaler(PrecisionMode mode, double init_scale, int64_t growth_interval,
                       c10::Device device)
    : enabled_(mode == PrecisionMode::kFp16), growth_interval_(growth_interval) {
  const auto options = at::TensorOptions().device(device);
  scale_ = at::full({}, enabled_ ? init_scale : 1.0, options.dtype(at::kFloat));
  growth_tracker_ = at::zeros({}, options.dtype(at::kInt));
}

LossScalerState LossScaler::state() const {
  return {scale_.item<double>(), growth_tracker_.item<int64_t>()};
}

void LossScaler::load_state(const LossScalerState& state) {
  if (enabled_) {
    scale_.fill_(state.scale);
    growth_tracker_.fill_(state.growth_tracker);
  }
}

}  // namespace longship::runtime
