#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <memory>
#include <string>

#include "models/forecaster.h"
#include "runtime/precision.h"
#include "runtime/step_graph.h"

namespace longship::runtime {

// Forward passes of one batch size for inference; on a GPU, one CUDA graph. The model is put into
// evaluation mode, and for a half precision its parameters are converted once (they stay so),
// rather than cast in every pass as training does.
class ForwardGraph {
 public:
  // model: on `device`; outlives this. On CUDA the current stream must not be the default one, and
  // all passes run on it. Where the model cannot be captured the passes run eagerly; why() tells.
  ForwardGraph(models::Forecaster& model, int64_t batch, const models::ModelShape& shape,
               PrecisionMode precision, c10::Device device);

  // past: float32 (batch, window, inputs), where the caller writes the next batch.
  const at::Tensor& past() const { return past_; }
  // Runs a pass and returns the forecast (batch, horizon, targets, outputs), overwritten by the
  // next; does not block.
  const at::Tensor& run();
  // Of several ways to compute that the model offers, the fastest; empty where it offers none.
  const std::string& implementation() const { return implementation_; }
  bool recorded() const { return graph_ != nullptr; }
  const std::string& why() const { return why_; }

 private:
  void forward();

  models::Forecaster& model_;
  PrecisionMode precision_;
  at::Tensor past_;
  at::Tensor forecast_;
  std::unique_ptr<StepGraph> graph_;
  std::string implementation_;
  std::string why_;
};

}  // namespace longship::runtime
