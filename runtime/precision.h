#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace longship::runtime {

enum class PrecisionMode { kFp32, kTf32, kBf16, kFp16, kFp8 };
const char* to_string(PrecisionMode mode);

// What `precision.mode` means on this device; collective, so that all ranks train alike on mixed
// GPUs. auto: fp32 on CPUs, bf16 on GPUs of compute capability 8.0 and up, else fp16. Throws
// Error (kSetup) for a mode that a rank's device cannot do (tf32 and bf16 need 8.0; tf32 a GPU; fp8
// 9.0).
PrecisionMode resolve_precision(const std::string& mode, c10::Device device,
                                comm::Communicator& host);

// Sets the process-wide switches that a mode needs: TF32 matrix products on or off, and oneDNN off
// for FP16 on CPUs (its recurrent layers cannot train in FP16).
void apply_precision(PrecisionMode mode, c10::Device device);

// While alive, eligible operations run in the mode's half type (autocast; BF16 for fp8, whose
// layers see to themselves); nothing for fp32, tf32.
class AutocastGuard {
 public:
  AutocastGuard(PrecisionMode mode, c10::Device device);
  ~AutocastGuard();
  AutocastGuard(const AutocastGuard&) = delete;
  AutocastGuard& operator=(const AutocastGuard&) = delete;

 private:
  bool active_;
  c10::DeviceType device_type_;
  bool was_enabled_ = false;
  at::ScalarType previous_type_ = at::kFloat;
};

struct LossScalerState {
  double scale = 1;
  int64_t growth_tracker = 0;
};

// The dynamic loss scale of FP16, on the device, where runtime/step_finish.h moves it: it halves on
// overflow and doubles after growth_interval good steps. With other modes the scale is 1 and stays
// so.
class LossScaler {
 public:
  static constexpr double kFloor = 1.0 / 65536;

  LossScaler(PrecisionMode mode, double init_scale, int64_t growth_interval, c10::Device device);

  bool enabled() const { return enabled_; }
  const at::Tensor& scale() const { return scale_; }                    // float32 scalar
  const at::Tensor& growth_tracker() const { return growth_tracker_; }  // int32 scalar
  int64_t growth_interval() const { return growth_interval_; }

  LossScalerState state() const;  // synchronises
  void load_state(const LossScalerState& state);

 private:
  bool enabled_;
  int64_t growth_interval_;
  at::Tensor scale_;
  at::Tensor growth_tracker_;
};

}  // namespace longship::runtime
