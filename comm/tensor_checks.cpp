#include "comm/tensor_checks.h"

#include <algorithm>
#include <array>
#include <sstream>
#include <stdexcept>

namespace longship::comm {
namespace {

constexpr std::array kDtypes{at::kFloat, at::kDouble, at::kHalf, at::kBFloat16,
                             at::kInt,   at::kLong,   at::kByte};

[[noreturn]] void refuse(const std::string& collective, const std::string& why) {
  throw std::invalid_argument(collective + ": " + why);
}

void check_pair(const std::string& collective, const at::Tensor& input, const at::Tensor& output) {
  check_moved(collective, input);
  check_moved(collective, output);
  if (input.scalar_type() != output.scalar_type() || input.device() != output.device()) {
    refuse(collective, "input and output differ in dtype or device");
  }
}

void check_multiple(const std::string& collective, const at::Tensor& whole, const at::Tensor& part,
                    int size) {
  if (whole.numel() == part.numel() * size) return;
  std::ostringstream why;
  why << whole.numel() << " elements are not " << size << " ranks times " << part.numel();
  refuse(collective, why.str());
}

}  // namespace

std::string name_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return "sum";
    case ReduceOp::kMax:
      return "max";
    case ReduceOp::kMin:
      return "min";
  }
  throw std::invalid_argument("unknown reduction");
}

bool is_half(at::ScalarType dtype) {
  return dtype == at::kHalf || dtype == at::kBFloat16;
}

void check_moved(const std::string& collective, const at::Tensor& tensor) {
  if (!tensor.defined()) refuse(collective, "the tensor is undefined");
  if (tensor.layout() != at::kStrided) refuse(collective, "the tensor is not dense");
  if (!tensor.is_contiguous()) refuse(collective, "the tensor is not contiguous");
  const auto dtype = tensor.scalar_type();
  if (std::find(kDtypes.begin(), kDtypes.end(), dtype) == kDtypes.end()) {
    refuse(collective, std::string("dtype ") + c10::toString(dtype) + " is not supported");
  }
}

void check_reduced(const std::string& collective, const at::Tensor& tensor, ReduceOp op) {
  check_moved(collective, tensor);
  if (op != ReduceOp::kSum && is_half(tensor.scalar_type())) {
    refuse(collective, "half types can only be summed; use float32 for " + name_of(op));
  }
}

void check_gathered(const at::Tensor& input, const at::Tensor& output, int size) {
  check_pair("all_gather", input, output);
  check_multiple("all_gather", output, input, size);
}

void check_scattered(const at::Tensor& input, const at::Tensor& output, ReduceOp op, int size) {
  check_pair("reduce_scatter", input, output);
  check_reduced("reduce_scatter", input, op);
  check_multiple("reduce_scatter", input, output, size);
}

void check_root(const std::string& collective, int root, int size) {
  if (root >= 0 && root < size) return;
  std::ostringstream why;
  why << "root " << root << " is not one of " << size << " ranks";
  refuse(collective, why.str());
}

}  // namespace longship::comm
