#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "comm/communicator.h"

namespace longship::comm {

// "sum", "max", "min".
std::string name_of(ReduceOp op);

// float16 and bfloat16.
bool is_half(at::ScalarType dtype);

// What every communicator asks of its arguments. All throw std::invalid_argument that names the
// collective and what is wrong: not contiguous, a dtype that Communicator does not list, a sparse
// tensor, or sizes that do not fit the number of ranks.
void check_reduced(const std::string& collective, const at::Tensor& tensor, ReduceOp op);
void check_moved(const std::string& collective, const at::Tensor& tensor);
void check_gathered(const at::Tensor& input, const at::Tensor& output, int size);
void check_scattered(const at::Tensor& input, const at::Tensor& output, ReduceOp op, int size);
void check_root(const std::string& collective, int root, int size);

}  // namespace longship::comm
