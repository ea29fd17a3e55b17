#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/communicator.h"

namespace longship::comm {

// Passes everything on to another communicator and remembers the tensors of all-reduces.
class RecordingCommunicator final : public Communicator {
 public:
  explicit RecordingCommunicator(Communicator& inner) : inner_(inner) {}

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  std::string backend() const override { return inner_.backend(); }
  bool capturable() const override { return inner_.capturable(); }

  std::unique_ptr<Work> all_reduce_async(at::Tensor tensor, ReduceOp op) override {
    all_reduced.push_back(tensor);
    return inner_.all_reduce_async(std::move(tensor), op);
  }
  void broadcast(at::Tensor tensor, int root) override { inner_.broadcast(tensor, root); }
  void all_gather(const at::Tensor& input, at::Tensor output) override {
    inner_.all_gather(input, output);
  }
  std::unique_ptr<Work> reduce_scatter_async(const at::Tensor& input, at::Tensor output,
                                             ReduceOp op) override {
    return inner_.reduce_scatter_async(input, output, op);
  }
  void barrier() override { inner_.barrier(); }

  std::vector<at::Tensor> all_reduced;

 private:
  Communicator& inner_;
};

}  // namespace longship::comm
