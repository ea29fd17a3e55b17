#include "runtime/optimizer.h"

#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "torch_reference.h"

namespace longship::runtime {
namespace {

Config::Optimizer adamw(bool decay_biases = true) {
  Config::Optimizer config;
  config.name = "adamw";
  config.weight_decay = 0.1;
  config.decay_biases = decay_biases;
  config.beta1 = 0.8;
  config.beta2 = 0.95;
  config.eps = 1e-6;
  return config;
}

Config::Optimizer sgd(double momentum, double weight_decay, bool decay_biases = true) {
  Config::Optimizer config;
  config.name = "sgd";
  config.momentum = momentum;
  config.weight_decay = weight_decay;
  config.decay_biases = decay_biases;
  return config;
}

// A layer's weight and bias with the gradients of torch_reference.h.
class Layer {
 public:
  explicit Layer(const Config::Optimizer& config) : given_(tests::reference_input()) {
    for (const std::string name : {"weight", "bias"}) {
      at::Tensor tensor = given_.at(name).clone().requires_grad_();
      tensor.mutable_grad() = at::zeros_like(tensor);
      parts_.push_back({name, tensor, tensor.grad()});
    }
    optimizer_ = make_optimizer(config, parts_);
  }

  void step(int64_t index, int64_t applied, float found_inf = 0) {
    for (UpdatedPart& part : parts_) {
      part.gradient.copy_(given_.at("gradients/" + part.name)[index]);
    }
    optimizer_->step({.lr = given_.at("lr")[index],
                      .step_number = at::full({}, static_cast<float>(applied)),
                      .divisor = at::ones({}),
                      .found_inf = at::full({}, found_inf)});
  }

  const at::Tensor& parameter(size_t i) const { return parts_[i].values; }
  at::Tensor gradient(size_t i) const { return parts_[i].gradient; }
  std::vector<OptimizerEntry> slots() { return optimizer_->state(); }

 private:
  tests::Tensors given_;
  std::vector<UpdatedPart> parts_;
  std::unique_ptr<Optimizer> optimizer_;
};

void expect_reference(const std::string& name, const Config::Optimizer& config) {
  const tests::Tensors& found = tests::torch_reference();
  Layer layer(config);
  for (int64_t step = 0; step < tests::kReferenceSteps; ++step) {
    layer.step(step, step + 1);
    EXPECT_TRUE(at::allclose(layer.parameter(0), found.at(name + "/weight")[step], 0, 1e-6))
        << name << " weight, step " << step;
    EXPECT_TRUE(at::allclose(layer.parameter(1), found.at(name + "/bias")[step], 0, 1e-6))
        << name << " bias, step " << step;
  }
}

TEST(Optimizer, AdamWIsThatOfPyTorch) {
  expect_reference("adamw", adamw());
}

TEST(Optimizer, AdamWMayLeaveBiasesUndecayed) {
  expect_reference("adamw_weights", adamw(/*decay_biases=*/false));
}

TEST(Optimizer, SgdIsThatOfPyTorch) {
  expect_reference("sgd", sgd(0, 0));
  expect_reference("sgd_momentum", sgd(0.9, 0.1));
  expect_reference("sgd_weights", sgd(0.9, 0.1, /*decay_biases=*/false));
}

TEST(Optimizer, AFoundInfLeavesEverythingAsItIs) {
  for (const Config::Optimizer& config : {adamw(), adamw(false), sgd(0.9, 0.1), sgd(0, 0.1)}) {
    Layer layer(config);
    Layer skipping(config);
    layer.step(0, 1);
    skipping.step(0, 1);
    skipping.step(3, 2, /*found_inf=*/1);
    layer.step(1, 2);
    skipping.step(1, 2);
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_TRUE(at::equal(layer.parameter(i), skipping.parameter(i))) << config.name;
    }
    const auto expected = layer.slots();
    const auto slots = skipping.slots();
    for (size_t i = 0; i < slots.size(); ++i) {
      EXPECT_TRUE(at::equal(slots[i].tensor, expected[i].tensor)) << slots[i].state;
    }
  }
}

TEST(Optimizer, NamesItsStateAsPyTorchDoes) {
  const auto names = [](const Config::Optimizer& config) {
    std::vector<std::string> all;
    for (const OptimizerEntry& slot : Layer(config).slots()) {
      all.push_back(slot.parameter + "." + slot.state);
    }
    return all;
  };
  EXPECT_THAT(names(adamw()), testing::ElementsAre("weight.exp_avg", "weight.exp_avg_sq",
                                                   "bias.exp_avg", "bias.exp_avg_sq"));
  EXPECT_THAT(names(sgd(0.9, 0)),
              testing::ElementsAre("weight.momentum_buffer", "bias.momentum_buffer"));
  EXPECT_TRUE(names(sgd(0, 0)).empty());
}

TEST(Optimizer, GoesOnFromStateWrittenIntoItsSlots) {
  for (const Config::Optimizer& config : {adamw(), sgd(0.9, 0.1)}) {
    Layer whole(config);
    Layer resumed(config);
    for (int64_t step = 0; step < 5; ++step) whole.step(step, step + 1);
    {
      const at::NoGradGuard no_grad;
      const auto from = whole.slots();
      const auto to = resumed.slots();
      for (size_t i = 0; i < to.size(); ++i) to[i].tensor.copy_(from[i].tensor);
      for (size_t i = 0; i < 2; ++i) resumed.parameter(i).copy_(whole.parameter(i));
    }
    for (int64_t step = 5; step < 8; ++step) {
      whole.step(step, step + 1);
      resumed.step(step, step + 1);
    }
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_TRUE(at::equal(whole.parameter(i), resumed.parameter(i))) << config.name;
    }
  }
}

// Beside LibTorch's fused kernel; gradients lie at odd places of one storage, as in a bucket.
TEST(OptimizerGpu, AdamWIsLibTorchs) {
  if (!at::cuda::is_available()) GTEST_SKIP() << "there is no GPU";
  const auto gpu = at::TensorOptions().device(at::kCUDA);
  const std::vector<std::vector<int64_t>> sizes = {{64, 128}, {3, 5}, {4097}, {1000, 33}, {1}};
  std::vector<UpdatedPart> parts;
  std::vector<at::Tensor> parameters;
  std::vector<at::Tensor> gradients;
  std::vector<at::Tensor> first;
  std::vector<at::Tensor> second;
  at::manual_seed(3);
  const at::Tensor storage = at::zeros({60000}, gpu);
  int64_t offset = 0;
  for (const std::vector<int64_t>& size : sizes) {
    const at::Tensor values = at::randn(size, gpu);
    const at::Tensor gradient = storage.narrow(0, offset, values.numel()).view(size);
    offset += values.numel() + 1;
    parts.push_back({"p" + std::to_string(parts.size()), values, gradient});
    parameters.push_back(values.clone());
    gradients.push_back(at::zeros_like(values));
    first.push_back(at::zeros_like(values));
    second.push_back(at::zeros_like(values));
  }
  const Config::Optimizer config = adamw();
  const auto optimizer = make_optimizer(config, parts);
  const auto number = [&](double value) { return at::full({}, value, gpu); };
  for (int step = 1; step <= 20; ++step) {
    Optimizer::Decision decision{number(1e-3 * step), number(step), number(64), number(0)};
    storage.normal_().mul_(64);
    for (size_t i = 0; i < parts.size(); ++i) gradients[i].copy_(parts[i].gradient);
    if (step == 7) {  // does nothing
      decision.found_inf.fill_(1);
      const at::Tensor before = parts[0].values.clone();
      optimizer->step(decision);
      EXPECT_TRUE(at::equal(parts[0].values, before));
      decision.found_inf.fill_(0);
    }
    optimizer->step(decision);
    const std::vector<at::Tensor> steps(parts.size(), decision.step_number);
    at::_fused_adamw_(parameters, gradients, first, second, {}, steps, decision.lr, config.beta1,
                      config.beta2, config.weight_decay, config.eps, false, false, decision.divisor,
                      decision.found_inf);
    const auto state = optimizer->state();
    for (size_t i = 0; i < parts.size(); ++i) {
      EXPECT_TRUE(at::allclose(parts[i].values, parameters[i], 1e-5, 1e-6)) << i << ' ' << step;
      EXPECT_TRUE(at::allclose(state[2 * i].tensor, first[i], 1e-5, 1e-6)) << i << ' ' << step;
      EXPECT_TRUE(at::allclose(state[2 * i + 1].tensor, second[i], 1e-5, 1e-6)) << i << ' ' << step;
    }
  }
}

TEST(OptimizerGpu, UndecayedParametersStayWithoutGradient) {
  if (!at::cuda::is_available()) GTEST_SKIP() << "there is no GPU";
  const auto gpu = at::TensorOptions().device(at::kCUDA);
  std::vector<UpdatedPart> parts;
  for (const std::vector<int64_t>& size : std::vector<std::vector<int64_t>>{{4, 4}, {4}}) {
    parts.push_back({"p", at::ones(size, gpu), at::zeros(size, gpu)});
  }
  const auto optimizer = make_optimizer(adamw(/*decay_biases=*/false), parts);
  const auto number = [&](double value) { return at::full({}, value, gpu); };
  optimizer->step({number(0.5), number(1), number(1), number(0)});
  EXPECT_TRUE(at::allclose(parts[0].values, at::full({4, 4}, 0.95, gpu)));
  EXPECT_TRUE(at::equal(parts[1].values, at::ones({4}, gpu)));
}

}  // namespace
}  // namespace longship::runtime
