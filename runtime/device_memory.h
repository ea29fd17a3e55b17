#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <exception>

#include "models/forecaster.h"

namespace longship::runtime {

// Whether a device's memory holds one forward and backward of a micro-batch (of zeros); true on a
// CPU. Clobbers gradients: undefined ones stay so.
bool micro_batch_fits(models::Forecaster& model, const models::ModelShape& shape,
                      int64_t micro_batch_size, c10::Device device);

// What to tell of a step that ran out of a device's memory, once what it held is free again: a
// ConfigError that names the largest divisor of the batch size that fits, found by trial. Null
// where `error` is another.
std::exception_ptr out_of_memory_error(const std::exception_ptr& error, models::Forecaster& model,
                                       const models::ModelShape& shape, int64_t batch_size,
                                       int64_t micro_batch_size, c10::Device device);

// Lets this process take at most this share of the device's memory (0 to 1]; nothing on a CPU.
void cap_device_memory(double fraction, c10::Device device);

// Most bytes of the device's memory that LibTorch has held for this process; 0 on a CPU.
int64_t peak_device_memory(c10::Device device);

}  // namespace longship::runtime
