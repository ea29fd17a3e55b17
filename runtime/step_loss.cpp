#include "runtime/step_loss.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAStream.h>

#include <map>
#include <string>

namespace longship::runtime {
namespace {

LossKind kind_of(const std::string& loss) {
  static const std::map<std::string, LossKind> kKinds = {{"mse", LossKind::kMse},
                                                         {"mae", LossKind::kMae},
                                                         {"huber", LossKind::kHuber},
                                                         {"quantile", LossKind::kQuantile}};
  return kKinds.at(loss);
}

ForecastType type_of(const at::Tensor& forecast) {
  switch (forecast.scalar_type()) {
    case at::kFloat:
      return ForecastType::kFloat;
    case at::kHalf:
      return ForecastType::kHalf;
    case at::kBFloat16:
      return ForecastType::kBfloat16;
    default:
      TORCH_CHECK(false, "a forecast must be float32, float16 or bfloat16, is ",
                  forecast.scalar_type());
  }
}

}  // namespace

StepLoss::StepLoss(const Config::Train& train, c10::Device gpu)
    : kind_(kind_of(train.loss)),
      huber_delta_(static_cast<float>(train.huber_delta)),
      partial_sums_(at::zeros({loss_blocks()}, at::TensorOptions().device(gpu).dtype(at::kDouble))),
      ticket_(at::zeros({}, at::TensorOptions().device(gpu).dtype(at::kInt))) {
  if (kind_ == LossKind::kQuantile) {
    quantiles_ = at::tensor(train.quantiles, at::kDouble).to(gpu, at::kFloat);
  }
}

at::Tensor StepLoss::gradient(const at::Tensor& forecast, const at::Tensor& target,
                              const at::Tensor& weight, const at::Tensor& samples,
                              const at::Tensor& scale, const at::Tensor& loss_sum) {
  const at::NoGradGuard no_grad;
  const at::Tensor values = forecast.detach().contiguous();
  const at::Tensor wanted = target.contiguous();
  TORCH_CHECK(values.dim() == 4 && wanted.sizes() == values.sizes().slice(0, 3) &&
                  (kind_ != LossKind::kQuantile || quantiles_.numel() == values.size(3)) &&
                  weight.numel() == values.size(0),
              "a forecast of ", values.sizes(), " does not fit targets of ", wanted.sizes());
  at::Tensor result = at::empty_like(values);
  LossWork work;
  work.kind = kind_;
  work.huber_delta = huber_delta_;
  if (quantiles_.defined()) work.quantiles = quantiles_.const_data_ptr<float>();
  work.type = type_of(values);
  work.forecast = values.const_data_ptr();
  work.target = wanted.const_data_ptr<float>();
  work.weight = weight.const_data_ptr<float>();
  work.samples = samples.const_data_ptr<int64_t>();
  work.scale = scale.const_data_ptr<float>();
  work.batch = values.size(0);
  work.elements = values.numel() / values.size(0);
  work.outputs = values.size(3);
  work.gradient = result.mutable_data_ptr();
  work.loss_sum = loss_sum.mutable_data_ptr<float>();
  work.partial_sums = partial_sums_.mutable_data_ptr<double>();
  work.ticket = reinterpret_cast<uint32_t*>(ticket_.mutable_data_ptr<int>());
  loss_cuda(work, c10::cuda::getCurrentCUDAStream(values.device().index()));
  return result;
}

}  // namespace longship::runtime
