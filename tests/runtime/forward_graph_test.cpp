#include "runtime/forward_graph.h"

#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <gtest/gtest.h>

#include "runtime/model_setup.h"
#include "test_series.h"

namespace longship::runtime {
namespace {

Config lstm_config() {
  const tests::TemporaryFolder nowhere;
  return tests::wave_config(nowhere, {"model.name=lstm", "model.hidden_size=16",
                                      "model.num_layers=2", "model.dropout=0.3"});
}

at::Tensor plain_forecast(const Config& config, const at::Tensor& past) {
  const auto model = make_model(config);
  model->eval();
  const at::NoGradGuard no_grad;
  models::Inputs inputs;
  inputs.past = past;
  return model->forward(inputs).values;
}

TEST(ForwardGraph, RunsEagerlyOnACpuAndSaysSo) {
  const Config config = lstm_config();
  const auto model = make_model(config);
  ForwardGraph forward(*model, 5, model_shape(config), PrecisionMode::kFp32, c10::kCPU);
  EXPECT_FALSE(forward.recorded());
  EXPECT_EQ(forward.why(), "there is no GPU");
  forward.past().normal_();
  EXPECT_TRUE(at::allclose(forward.run(), plain_forecast(config, forward.past()), 1e-5, 1e-6));
}

TEST(ForwardGraphGpu, RepeatsTheForwardPassInEveryPrecision) {
  if (!at::cuda::is_available()) GTEST_SKIP() << "there is no GPU";
  const c10::cuda::CUDAStreamGuard stream(c10::cuda::getStreamFromPool());
  const Config config = lstm_config();
  const std::vector<std::pair<PrecisionMode, double>> modes = {{PrecisionMode::kFp32, 1e-5},
                                                               {PrecisionMode::kTf32, 1e-2},
                                                               {PrecisionMode::kFp16, 1e-2},
                                                               {PrecisionMode::kBf16, 5e-2}};
  for (const auto& [precision, tolerance] : modes) {
    apply_precision(precision, c10::kCUDA);
    const auto model = make_model(config);
    model->to(c10::kCUDA);
    const c10::Device device(c10::kCUDA, 0);
    ForwardGraph forward(*model, 5, model_shape(config), precision, device);
    ASSERT_TRUE(forward.recorded()) << forward.why();
    for (int repeat = 0; repeat < 3; ++repeat) {
      const at::Tensor past = at::randn({5, 6, 2});
      forward.past().copy_(past);
      const at::Tensor found = forward.run().to(at::kFloat).cpu();
      EXPECT_TRUE(at::allclose(found, plain_forecast(config, past), tolerance, tolerance))
          << to_string(precision);
    }
  }
}

}  // namespace
}  // namespace longship::runtime
