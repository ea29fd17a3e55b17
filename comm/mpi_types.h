#pragma once

#include <ATen/core/Tensor.h>
#include <mpi.h>

#include "comm/communicator.h"

namespace longship::comm {

// The MPI type whose elements hold this dtype. Half types travel as MPI_UINT16_T.
MPI_Datatype mpi_type(at::ScalarType dtype);

// Our own sums of float16 and bfloat16, which MPI does not have. Made and freed in the MPI thread,
// between MPI_Init_thread and MPI_Finalize.
class HalfSums {
 public:
  HalfSums();
  ~HalfSums();
  HalfSums(const HalfSums&) = delete;
  HalfSums& operator=(const HalfSums&) = delete;

  // The operation that reduces this dtype: one of MPI's own but for the sums of half types.
  MPI_Op operation(ReduceOp op, at::ScalarType dtype) const;

 private:
  MPI_Op float16_ = MPI_OP_NULL;
  MPI_Op bfloat16_ = MPI_OP_NULL;
};

// MPI's text for an error code.
std::string mpi_error_text(int code);

}  // namespace longship::comm
