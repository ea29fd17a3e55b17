#include <gtest/gtest.h>
#include <mpi.h>
#include <torch/torch.h>

#include <atomic>
#include <cstdint>
#include <vector>

#include "comm/gradient_reducer.h"
#include "mpi_environment.h"

namespace {

// Counted at MPI's own profiling interface, behind everything of ours.
std::atomic<int64_t>& bytes_given_to_mpi() {
  static std::atomic<int64_t> bytes{0};
  return bytes;
}

std::atomic<int>& calls_to_mpi() {
  static std::atomic<int> calls{0};
  return calls;
}

}  // namespace

extern "C" int MPI_Iallreduce(const void* send, void* receive, int count, MPI_Datatype type,
                              MPI_Op op, MPI_Comm comm, MPI_Request* request) {
  int size = 0;
  MPI_Type_size(type, &size);
  bytes_given_to_mpi() += int64_t{count} * size;
  ++calls_to_mpi();
  return PMPI_Iallreduce(send, receive, count, type, op, comm, request);
}

namespace longship::comm {
namespace {

struct Counted {
  int64_t bytes;
  int calls;
};

// The second step, since the first agrees on wire scales.
Counted count_a_step(WireFormat wire, GradientReducer& reducer, const at::Tensor& parameter) {
  for (int step = 0; step < 2; ++step) {
    bytes_given_to_mpi() = 0;
    calls_to_mpi() = 0;
    reducer.zero();
    for (int m = 0; m < 3; ++m) {
      reducer.begin_micro_step(m == 2);
      parameter.sum().backward();
    }
    reducer.finalize();
  }
  EXPECT_EQ(bytes_given_to_mpi(), reducer.wire_bytes_per_step()) << static_cast<int>(wire);
  return {bytes_given_to_mpi(), calls_to_mpi()};
}

TEST(WireBytes, HalfTypesGiveMpiHalfTheBytes) {
  auto& communicator = MpiEnvironment::current().communicator();
  if (communicator.size() < 2) GTEST_SKIP() << "a single rank sends nothing to anyone";
  const auto count = [&](WireFormat wire) {
    const auto parameter = torch::zeros({1000, 64}).requires_grad_();
    ReducerOptions options;
    options.wire = wire;
    GradientReducer reducer({parameter}, communicator, options);
    return count_a_step(wire, reducer, parameter);
  };
  const int64_t slots = communicator.size();
  EXPECT_EQ(count(WireFormat::kFp32).bytes, 4 * 64000);
  EXPECT_EQ(count(WireFormat::kFp16).bytes, 2 * (64000 + slots));
  EXPECT_EQ(count(WireFormat::kBf16).bytes, 2 * (64000 + slots));
  EXPECT_EQ(count(WireFormat::kFp16).calls, 1);
}

}  // namespace
}  // namespace longship::comm
