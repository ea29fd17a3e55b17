#include "comm/mpi_types.h"

#include <array>
#include <stdexcept>
#include <string>

#include "comm/error.h"
#include "comm/half_sum.h"

namespace longship::comm {
namespace {

extern "C" {
void longship_add_float16(void* in, void* inout, int* count, MPI_Datatype* /*type*/) {
  add_float16(static_cast<const uint16_t*>(in), static_cast<uint16_t*>(inout), *count);
}

void longship_add_bfloat16(void* in, void* inout, int* count, MPI_Datatype* /*type*/) {
  add_bfloat16(static_cast<const uint16_t*>(in), static_cast<uint16_t*>(inout), *count);
}
}

MPI_Op make_operation(MPI_User_function* function) {
  MPI_Op op = MPI_OP_NULL;
  const int code = MPI_Op_create(function, /*commute=*/1, &op);
  if (code != MPI_SUCCESS) {
    throw CommError(CommError::Kind::kSetup, "MPI_Op_create: " + mpi_error_text(code));
  }
  return op;
}

}  // namespace

MPI_Datatype mpi_type(at::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat:
      return MPI_FLOAT;
    case at::kDouble:
      return MPI_DOUBLE;
    case at::kHalf:
    case at::kBFloat16:
      return MPI_UINT16_T;
    case at::kInt:
      return MPI_INT32_T;
    case at::kLong:
      return MPI_INT64_T;
    case at::kByte:
      return MPI_UINT8_T;
    default:
      throw std::invalid_argument(std::string("MPI has no type for ") + c10::toString(dtype));
  }
}

HalfSums::HalfSums()
    : float16_(make_operation(longship_add_float16)),
      bfloat16_(make_operation(longship_add_bfloat16)) {}

HalfSums::~HalfSums() {
  MPI_Op_free(&float16_);
  MPI_Op_free(&bfloat16_);
}

MPI_Op HalfSums::operation(ReduceOp op, at::ScalarType dtype) const {
  switch (op) {
    case ReduceOp::kSum:
      if (dtype == at::kHalf) return float16_;
      if (dtype == at::kBFloat16) return bfloat16_;
      return MPI_SUM;
    case ReduceOp::kMax:
      return MPI_MAX;
    case ReduceOp::kMin:
      return MPI_MIN;
  }
  throw std::invalid_argument("unknown reduction");
}

std::string mpi_error_text(int code) {
  std::array<char, MPI_MAX_ERROR_STRING + 1> text{};
  int length = 0;
  if (MPI_Error_string(code, text.data(), &length) != MPI_SUCCESS) {
    return "MPI error " + std::to_string(code);
  }
  return {text.data(), static_cast<size_t>(length)};
}

}  // namespace longship::comm
