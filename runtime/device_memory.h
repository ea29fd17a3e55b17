#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <exception>
#include <string>

#include "data/dataset.h"
#include "models/forecaster.h"
#include "runtime/config.h"

namespace longship::runtime {

// Whether a device's memory holds one forward and backward of a micro-batch (of zeros) beside
// `reserved` bytes; true on a CPU. Clobbers gradients: undefined ones stay so.
bool micro_batch_fits(models::Forecaster& model, const models::ModelShape& shape,
                      int64_t micro_batch_size, int64_t reserved, c10::Device device);

// Whether data.residence puts a data set into the device's memory: "auto" does when that leaves
// most of what is free to the training. False on a CPU.
bool resides_on_device(const data::Dataset& dataset, const std::string& residence,
                       c10::Device device);

// Bytes that a training takes on its device beside the model and what a micro-batch takes:
// optimizer state, gradients' wire, device-resident series. 0 on a CPU.
int64_t bytes_beside_micro_batches(const Config& config, const models::Forecaster& model,
                                   const data::Dataset& dataset, int ranks, c10::Device device);

// What to tell of a step that ran out of a device's memory, once what it held is free again: a
// ConfigError that names the largest divisor of the batch size that fits, found by trial. Null
// where `error` is another.
std::exception_ptr out_of_memory_error(const std::exception_ptr& error, models::Forecaster& model,
                                       const models::ModelShape& shape, int64_t batch_size,
                                       int64_t micro_batch_size, c10::Device device);

// Lets this process take at most this share of the device's memory (0 to 1]. Throws ConfigError
// for less than 1 on a CPU, where nothing is capped.
void cap_device_memory(double fraction, c10::Device device);

// Most bytes of the device's memory that LibTorch has held for this process; 0 on a CPU.
int64_t peak_device_memory(c10::Device device);

}  // namespace longship::runtime
