#include "runtime/trainer_parts.h"

#include <ATen/ATen.h>
#include <xxhash.h>

namespace longship::runtime {
namespace {
constexpr double kDefaultBucketMib = 25;
constexpr double kMib = 1 << 20;
}  // namespace

std::vector<NamedParameter> named_parameters(const models::Forecaster& model) {
  std::vector<NamedParameter> parameters;
  for (const auto& item : model.named_parameters()) {
    if (item.value().requires_grad()) {
      parameters.push_back({item.key(), item.value()});
    }
  }
  return parameters;
}

std::vector<UpdatedPart> updated_parts(const models::Forecaster& model,
                                       const comm::GradientReducer& reducer) {
  std::vector<UpdatedPart> parts;
  for (const NamedParameter& parameter : named_parameters(model)) {
    UpdatedPart part{parameter.name, parameter.tensor, parameter.tensor.grad()};
    if (reducer.sharded()) {
      const at::Tensor none = at::empty({0}, parameter.tensor.options());
      part = {parameter.name, none, none, TensorPart{parameter.tensor.sizes().vec(), 0}};
    }
    parts.push_back(std::move(part));
  }
  for (const comm::GradientPiece& piece : reducer.pieces()) {
    UpdatedPart& part = parts[static_cast<size_t>(piece.parameter)];
    part.values = piece.values;
    part.gradient = piece.gradient;
    if (part.part) part.part->begin = piece.begin;
  }
  return parts;
}

comm::ReducerOptions reducer_options(const Config& config) {
  comm::ReducerOptions options;
  options.wire = config.comm.wire == "fp16"   ? comm::WireFormat::kFp16
                 : config.comm.wire == "bf16" ? comm::WireFormat::kBf16
                                              : comm::WireFormat::kFp32;
  options.shard = config.optimizer.shard;
  const double mib = config.comm.bucket_mib > 0 ? config.comm.bucket_mib : kDefaultBucketMib;
  options.bucket_bytes = static_cast<int64_t>(mib * kMib);
  options.first_bucket_bytes = std::min(options.first_bucket_bytes, options.bucket_bytes);
  return options;
}

std::unique_ptr<comm::GradientReducer> make_reducer(const Config& config,
                                                    const models::Forecaster& model,
                                                    comm::Communicator& communicator) {
  return make_reducer(reducer_options(config), model, communicator);
}

std::unique_ptr<comm::GradientReducer> make_reducer(comm::ReducerOptions options,
                                                    const models::Forecaster& model,
                                                    comm::Communicator& communicator) {
  std::vector<at::Tensor> tensors;
  for (const NamedParameter& parameter : named_parameters(model)) {
    tensors.push_back(parameter.tensor);
  }
  // A library that was asked for is used as with many ranks.
  options.cast_alone = communicator.backend() != "local";
  return std::make_unique<comm::GradientReducer>(std::move(tensors), communicator,
                                                 std::move(options));
}

int64_t parameter_checksum(const models::Forecaster& model) {
  uint64_t hash = 0;
  const auto add = [&hash](const at::Tensor& tensor) {
    const at::Tensor bytes = tensor.detach().to(at::kCPU).contiguous();
    hash = XXH3_64bits_withSeed(bytes.const_data_ptr(), bytes.nbytes(), hash);
  };
  for (const at::Tensor& parameter : model.parameters()) {
    add(parameter);
  }
  for (const at::Tensor& buffer : model.buffers()) {
    add(buffer);
  }
  return static_cast<int64_t>(hash >> 2);
}

}  // namespace longship::runtime
