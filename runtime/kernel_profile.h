#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace longship::runtime {

// Where a GPU's time goes while `work` runs, by the names of its kernels, as the CUDA profiling
// interface reports them.
struct KernelProfile {
  double kernel_ms = 0;       // all kernels
  double tensor_core_ms = 0;  // those whose name tells of Tensor Core instructions
  std::vector<std::pair<std::string, double>> kernels;  // by name, milliseconds, most first
};

// Throws std::runtime_error where the profiler sees no kernel.
KernelProfile profile_kernels(const std::function<void()>& work);

// Whether a kernel of this name uses Tensor Cores: the names that cuBLAS, cuDNN, CUTLASS and the
// attention kernels give to such variants. Names are a convention of those libraries, so this is an
// estimate and to be called one.
bool names_tensor_cores(const std::string& kernel);

}  // namespace longship::runtime
