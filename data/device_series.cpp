#include "data/device_series.h"

#include <ATen/Functions.h>
#include <c10/cuda/CUDAStream.h>

#include "data/gather_windows.h"

namespace longship::data {

DeviceSeries::DeviceSeries(const Dataset& dataset, c10::Device device)
    : window_(dataset.spec().window),
      horizon_(dataset.spec().horizon),
      inputs_(dataset.input_matrix().to(device)),
      targets_(dataset.target_matrix().to(device)) {}

int64_t DeviceSeries::bytes_for(const Dataset& dataset) {
  const auto columns =
      static_cast<int64_t>(dataset.spec().inputs.size() + dataset.spec().targets.size());
  return dataset.rows() * columns * static_cast<int64_t>(sizeof(float));
}

void DeviceSeries::gather(const at::Tensor& first_rows, const at::Tensor& past,
                          const at::Tensor& target) const {
  WindowGather gather;
  gather.inputs = inputs_.const_data_ptr<float>();
  gather.targets = targets_.const_data_ptr<float>();
  gather.first_rows = first_rows.const_data_ptr<int64_t>();
  gather.past = past.mutable_data_ptr<float>();
  gather.target = target.mutable_data_ptr<float>();
  gather.batch = first_rows.numel();
  gather.window = window_;
  gather.horizon = horizon_;
  gather.input_columns = inputs_.size(1);
  gather.target_columns = targets_.size(1);
  gather_windows_cuda(gather, c10::cuda::getCurrentCUDAStream(inputs_.device().index()));
}

at::Tensor DeviceSeries::make_past(int64_t batch) const {
  return at::empty({batch, window_, inputs_.size(1)}, inputs_.options());
}

at::Tensor DeviceSeries::make_target(int64_t batch) const {
  return at::empty({batch, horizon_, targets_.size(1)}, targets_.options());
}

}  // namespace longship::data
