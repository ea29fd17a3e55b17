#include "runtime/precision.h"

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/utils.h>

#include "comm/local_communicator.h"
#include "models/registry.h"
#include "runtime/error.h"

namespace longship::runtime {
namespace {

using testing::HasSubstr;

// Leaves the process as it was.
class PrecisionTest : public testing::Test {
 protected:
  void TearDown() override { at::globalContext().setUserEnabledMkldnn(onednn_); }
  const bool onednn_ = at::globalContext().userEnabledMkldnn();
  const std::unique_ptr<comm::Communicator> alone_ = comm::make_local_communicator();
};

TEST_F(PrecisionTest, ResolvesOnTheCpu) {
  const auto resolve = [&](const char* mode) {
    return resolve_precision(mode, c10::kCPU, *alone_);
  };
  EXPECT_EQ(resolve("auto"), PrecisionMode::kFp32);
  EXPECT_EQ(resolve("fp32"), PrecisionMode::kFp32);
  EXPECT_EQ(resolve("bf16"), PrecisionMode::kBf16);
  EXPECT_EQ(resolve("fp16"), PrecisionMode::kFp16);
  try {
    resolve("tf32");
    FAIL() << "not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kSetup);
    EXPECT_THAT(error.what(), HasSubstr("tf32 needs a GPU: use fp32 or auto"));
  }
  try {
    resolve("fp8");
    FAIL() << "not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kSetup);
    EXPECT_THAT(error.what(), HasSubstr("fp8 needs GPUs of compute capability 9.0"));
    EXPECT_THAT(error.what(), HasSubstr("trains on CPUs: use bf16 or auto"));
  }
}

TEST_F(PrecisionTest, NamesItsModes) {
  EXPECT_STREQ(to_string(PrecisionMode::kFp32), "fp32");
  EXPECT_STREQ(to_string(PrecisionMode::kTf32), "tf32");
  EXPECT_STREQ(to_string(PrecisionMode::kBf16), "bf16");
  EXPECT_STREQ(to_string(PrecisionMode::kFp16), "fp16");
  EXPECT_STREQ(to_string(PrecisionMode::kFp8), "fp8");
}

TEST_F(PrecisionTest, TurnsOneDnnOffForFp16OnCpusOnly) {
  at::globalContext().setUserEnabledMkldnn(true);
  apply_precision(PrecisionMode::kBf16, c10::kCPU);
  EXPECT_TRUE(at::globalContext().userEnabledMkldnn());
  apply_precision(PrecisionMode::kFp16, c10::kCPU);
  EXPECT_FALSE(at::globalContext().userEnabledMkldnn());
}

TEST_F(PrecisionTest, AutocastLastsAsLongAsItsGuard) {
  const at::Tensor a = at::randn({2, 2});
  const auto product = [&a] { return at::matmul(a, a).scalar_type(); };
  {
    const AutocastGuard none(PrecisionMode::kFp32, c10::kCPU);
    EXPECT_EQ(product(), at::kFloat);
    const AutocastGuard half(PrecisionMode::kFp16, c10::kCPU);
    EXPECT_EQ(product(), at::kHalf);
    {
      const AutocastGuard brain(PrecisionMode::kBf16, c10::kCPU);
      EXPECT_EQ(product(), at::kBFloat16);
    }
    EXPECT_EQ(product(), at::kHalf);
  }
  EXPECT_EQ(product(), at::kFloat);
}

// Gradients of all parameters after one backward of the mean square of the forecast.
std::vector<at::Tensor> gradients(const std::string& name, PrecisionMode mode,
                                  at::ScalarType expected) {
  const models::ModelSpec& spec = models::registered_models().at(name);
  std::map<std::string, models::OptionValue> values;
  for (const models::OptionSpec& option : spec.options) values[option.name] = option.fallback;
  if (name == "lstm") {
    values["hidden_size"] = int64_t{8};
    values["dropout"] = 0.2;
  }
  torch::manual_seed(3);
  const auto model =
      spec.make(models::Options(values), {.inputs = 4, .window = 5, .horizon = 2, .targets = 1});
  models::Inputs inputs;
  inputs.past = at::randn({6, 5, 4});
  at::Tensor forecast;
  {
    const AutocastGuard autocast(mode, c10::kCPU);
    forecast = model->forward(inputs).values;
  }
  EXPECT_EQ(forecast.scalar_type(), expected) << name;
  forecast.to(at::kFloat).square().mean().backward();
  std::vector<at::Tensor> all;
  for (const at::Tensor& parameter : model->parameters()) {
    EXPECT_EQ(parameter.grad().scalar_type(), at::kFloat);
    all.push_back(parameter.grad());
  }
  return all;
}

TEST_F(PrecisionTest, ModelsTrainInHalfTypesOnTheCpu) {
  const std::vector<std::pair<PrecisionMode, at::ScalarType>> modes = {
      {PrecisionMode::kBf16, at::kBFloat16}, {PrecisionMode::kFp16, at::kHalf}};
  for (const std::string name : {"linear", "lstm"}) {
    const auto expected = gradients(name, PrecisionMode::kFp32, at::kFloat);
    for (const auto& [mode, type] : modes) {
      apply_precision(mode, c10::kCPU);
      const auto found = gradients(name, mode, type);
      ASSERT_EQ(found.size(), expected.size());
      for (size_t i = 0; i < found.size(); ++i) {
        ASSERT_TRUE(found[i].isfinite().all().item<bool>()) << name << ' ' << to_string(mode);
        const double error = (found[i] - expected[i]).norm().item<double>();
        EXPECT_LT(error, 0.05 * expected[i].norm().item<double>() + 1e-4)
            << name << ' ' << to_string(mode) << " parameter " << i;
      }
    }
  }
}

TEST(LossScaler, IsOneInOtherModes) {
  LossScaler scaling(PrecisionMode::kFp16, 1024, 3, c10::kCPU);
  EXPECT_TRUE(scaling.enabled());
  EXPECT_EQ(scaling.scale().item<float>(), 1024);
  for (const PrecisionMode mode :
       {PrecisionMode::kFp32, PrecisionMode::kTf32, PrecisionMode::kBf16}) {
    LossScaler scaler(mode, 65536, 1, c10::kCPU);
    EXPECT_FALSE(scaler.enabled());
    EXPECT_EQ(scaler.scale().item<float>(), 1);
    scaler.load_state({.scale = 256, .growth_tracker = 4});
    EXPECT_EQ(scaler.scale().item<float>(), 1);
  }
}

TEST(LossScaler, GoesOnFromAStoredState) {
  LossScaler first(PrecisionMode::kFp16, 1024, 3, c10::kCPU);
  first.scale().fill_(512);
  first.growth_tracker().fill_(2);
  LossScaler second(PrecisionMode::kFp16, 65536, 3, c10::kCPU);
  second.load_state(first.state());
  EXPECT_EQ(second.scale().item<float>(), 512);
  EXPECT_EQ(second.growth_tracker().item<int>(), 2);
}

}  // namespace
}  // namespace longship::runtime
