#include "runtime/optimizer.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "runtime/adamw.h"

namespace longship::runtime {
namespace {

// Parameters with one weight decay, and lists of their tensors in the same order.
struct Group {
  double weight_decay = 0;
  std::vector<at::Tensor> parameters;
  std::vector<at::Tensor> gradients;
  std::vector<at::Tensor> first;   // exp_avg or momentum_buffer
  std::vector<at::Tensor> second;  // exp_avg_sq
  at::Tensor chunks;               // AdamWChunk each, bytes on the GPU, where it is one
};

// Splits the parameters by weight decay and makes a zeroed tensor for each of `states`.
class GroupedOptimizer : public Optimizer {
 public:
  GroupedOptimizer(const Config::Optimizer& config, const std::vector<UpdatedPart>& parts,
                   std::vector<std::string> states)
      : config_(config) {
    groups_[0].weight_decay = config.weight_decay;
    for (const UpdatedPart& part : parts) {
      const size_t dimensions =
          part.part ? part.part->shape.size() : static_cast<size_t>(part.values.dim());
      const bool empty = part.values.numel() == 0;
      Group& group = groups_[!config.decay_biases && dimensions < 2 ? 1 : 0];
      if (!empty) {
        group.parameters.push_back(part.values);
        group.gradients.push_back(part.gradient);
      }
      for (size_t i = 0; i < states.size(); ++i) {
        const at::Tensor state = at::zeros_like(part.values, at::MemoryFormat::Preserve);
        if (!empty) (i == 0 ? group.first : group.second).push_back(state);
        state_.push_back({part.name, states[i], state, part.part});
      }
    }
  }

  std::vector<OptimizerEntry> state() override { return state_; }

  void step(const Decision& decision) override {
    const at::NoGradGuard no_grad;
    for (Group& group : groups_) {
      if (!group.parameters.empty()) {
        step_group(group, decision);
      }
    }
  }

 protected:
  virtual void step_group(Group& group, const Decision& decision) = 0;
  const Config::Optimizer& config() const { return config_; }
  std::array<Group, 2>& groups() { return groups_; }

 private:
  Config::Optimizer config_;
  std::array<Group, 2> groups_;
  std::vector<OptimizerEntry> state_;
};

class AdamW final : public GroupedOptimizer {
 public:
  AdamW(const Config::Optimizer& config, const std::vector<UpdatedPart>& parts)
      : GroupedOptimizer(config, parts, {"exp_avg", "exp_avg_sq"}) {
    for (Group& group : groups()) {
      if (!group.parameters.empty() && group.parameters.front().is_cuda()) {
        group.chunks = chunks_of(group);
      }
    }
  }

 protected:
  void step_group(Group& group, const Decision& decision) override {
    if (group.chunks.defined()) {
      step_on_gpu(group, decision);
      return;
    }
    // The kernel wants a step count for each parameter and only reads it: one serves all.
    const std::vector<at::Tensor> steps(group.parameters.size(), decision.step_number);
    at::_fused_adamw_(group.parameters, group.gradients, group.first, group.second, {}, steps,
                      decision.lr, config().beta1, config().beta2, group.weight_decay, config().eps,
                      /*amsgrad=*/false, /*maximize=*/false, decision.divisor, decision.found_inf);
  }

 private:
  void step_on_gpu(const Group& group, const Decision& decision) {
    AdamWUpdate update;
    update.chunks = reinterpret_cast<const AdamWChunk*>(group.chunks.const_data_ptr<uint8_t>());
    update.count = static_cast<int64_t>(group.chunks.nbytes() / sizeof(AdamWChunk));
    update.beta1 = config().beta1;
    update.beta2 = config().beta2;
    update.eps = config().eps;
    update.weight_decay = group.weight_decay;
    update.lr = decision.lr.const_data_ptr<float>();
    update.step_number = decision.step_number.const_data_ptr<float>();
    update.divisor = decision.divisor.const_data_ptr<float>();
    update.found_inf = decision.found_inf.const_data_ptr<float>();
    adamw_cuda(update, c10::cuda::getCurrentCUDAStream(decision.lr.device().index()));
  }

  static at::Tensor chunks_of(const Group& group) {
    std::vector<AdamWChunk> chunks;
    for (size_t i = 0; i < group.parameters.size(); ++i) {
      const at::Tensor& parameter = group.parameters[i];
      TORCH_CHECK(parameter.is_non_overlapping_and_dense() &&
                      parameter.strides() == group.gradients[i].strides() &&
                      parameter.strides() == group.first[i].strides(),
                  "AdamW: a parameter, its gradient and its state are laid out differently");
      for (int64_t at = 0; at < parameter.numel(); at += kAdamWChunkElements) {
        chunks.push_back({parameter.mutable_data_ptr<float>() + at,
                          group.gradients[i].const_data_ptr<float>() + at,
                          group.first[i].mutable_data_ptr<float>() + at,
                          group.second[i].mutable_data_ptr<float>() + at,
                          std::min(parameter.numel() - at, kAdamWChunkElements)});
      }
    }
    const at::Tensor host =
        at::empty({static_cast<int64_t>(chunks.size() * sizeof(AdamWChunk))}, at::kByte);
    std::memcpy(host.mutable_data_ptr(), chunks.data(), host.nbytes());
    return host.to(group.parameters.front().device());
  }
};

class Sgd final : public GroupedOptimizer {
 public:
  Sgd(const Config::Optimizer& config, const std::vector<UpdatedPart>& parts)
      : GroupedOptimizer(config, parts,
                         config.momentum > 0 ? std::vector<std::string>{"momentum_buffer"}
                                             : std::vector<std::string>{}) {}

 protected:
  void step_group(Group& group, const Decision& decision) override {
    // A momentum buffer of zeros makes the first step equal to torch.optim.SGD's, which sets the
    // buffer to the gradient, and needs no host-side "is this the first applied step".
    at::_fused_sgd_(group.parameters, group.gradients, group.first, group.weight_decay,
                    config().momentum, decision.lr, /*dampening=*/0.0, /*nesterov=*/false,
                    /*maximize=*/false, /*is_first_step=*/false, decision.divisor,
                    decision.found_inf);
  }
};

}  // namespace

std::unique_ptr<Optimizer> make_optimizer(const Config::Optimizer& config,
                                          const std::vector<UpdatedPart>& parts) {
  if (config.name == "sgd") {
    return std::make_unique<Sgd>(config, parts);
  }
  return std::make_unique<AdamW>(config, parts);
}

}  // namespace longship::runtime
