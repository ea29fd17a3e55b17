#pragma once

#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "comm/local_communicator.h"
#include "runtime/checkpoint.h"

namespace longship::tests {

inline torch::Tensor random_tensor(std::vector<int64_t> shape, int64_t seed,
                                   torch::Dtype dtype = torch::kFloat) {
  auto generator = at::detail::createCPUGenerator(static_cast<uint64_t>(seed));
  return torch::randn(shape, generator, torch::TensorOptions().dtype(torch::kDouble)).to(dtype);
}

// A small state with several dtypes, a scalar tensor and an empty one. Equal for equal steps.
inline runtime::TrainingState make_state(int64_t step) {
  runtime::TrainingState state;
  state.step = step;
  state.applied = step - 2;
  state.weights = {{"lstm.weight_ih_l0", random_tensor({12, 5}, step)},
                   {"lstm.bias_ih_l0", random_tensor({12}, step + 1)},
                   {"norm.running_var", random_tensor({3}, step + 2, torch::kDouble)},
                   {"norm.num_batches_tracked", torch::tensor(step, torch::kLong)}};
  for (const char* name : {"lstm.weight_ih_l0", "lstm.bias_ih_l0"}) {
    const torch::Tensor& weight = state.weights[name == std::string("lstm.bias_ih_l0")].tensor;
    state.optimizer.push_back({name, "exp_avg", weight * 0.5});
    state.optimizer.push_back({name, "exp_avg_sq", weight * weight});
    state.optimizer.push_back({name, "step", torch::tensor(static_cast<float>(step))});
  }
  state.optimizer.push_back({"empty", "exp_avg", torch::empty({0, 4})});
  state.extra = {{"wire_history", torch::tensor({1.0F, NAN})}};
  for (const std::string& section : runtime::required_sections()) {
    state.scalars[section] = {{"of_step", step}, {"value", 0.1 * static_cast<double>(step)}};
  }
  return state;
}

inline bool same_bits(const torch::Tensor& a, const torch::Tensor& b) {
  return a.dtype() == b.dtype() && a.sizes() == b.sizes() &&
         std::memcmp(a.contiguous().const_data_ptr(), b.contiguous().const_data_ptr(),
                     a.nbytes()) == 0;
}

inline bool same_tensors(const std::vector<runtime::NamedTensor>& a,
                         const std::vector<runtime::NamedTensor>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.name == y.name && same_bits(x.tensor, y.tensor);
  });
}

// Bit for bit, in the same order.
inline bool same_state(const runtime::TrainingState& a, const runtime::TrainingState& b) {
  return a.step == b.step && a.applied == b.applied && a.scalars == b.scalars &&
         same_tensors(a.weights, b.weights) && same_tensors(a.extra, b.extra) &&
         std::equal(a.optimizer.begin(), a.optimizer.end(), b.optimizer.begin(), b.optimizer.end(),
                    [](const auto& x, const auto& y) {
                      return x.parameter == y.parameter && x.state == y.state &&
                             same_bits(x.tensor, y.tensor);
                    });
}

// The steps of the checkpoints in a folder, ascending.
inline std::vector<int64_t> steps_in(const std::string& folder) {
  std::vector<int64_t> steps;
  for (const auto& entry : runtime::list_checkpoints(folder).checkpoints) {
    steps.push_back(entry.step);
  }
  return steps;
}

// Runs `body` as each rank of a group of threads; returns what each threw, "" for nothing.
inline std::vector<std::string> on_ranks(int size,
                                         const std::function<void(comm::Communicator&)>& body) {
  auto group = comm::make_local_group(size);
  std::vector<std::string> errors(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < errors.size(); ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(*group[rank]);
      } catch (const std::exception& error) {
        errors[rank] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

inline std::vector<std::string> no_errors(int size) {
  return std::vector<std::string>(static_cast<std::size_t>(size));
}

}  // namespace longship::tests
