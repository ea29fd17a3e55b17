#include "comm/tensor_checks.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <stdexcept>
#include <string>

namespace longship::comm {
namespace {

std::string refusal(const std::function<void()>& check) {
  try {
    check();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "accepted";
}

TEST(TensorChecks, NameTheCollectiveAndTheFault) {
  const auto matrix = torch::zeros({2, 3});
  EXPECT_EQ(refusal([&] { check_moved("broadcast", matrix); }), "accepted");
  EXPECT_EQ(refusal([&] { check_moved("broadcast", matrix.t()); }),
            "broadcast: the tensor is not contiguous");
  EXPECT_EQ(refusal([&] { check_moved("broadcast", at::Tensor()); }),
            "broadcast: the tensor is undefined");
  EXPECT_EQ(refusal([&] { check_moved("broadcast", matrix.to(torch::kBool)); }),
            "broadcast: dtype Bool is not supported");
  EXPECT_EQ(refusal([&] { check_moved("broadcast", matrix.to_sparse()); }),
            "broadcast: the tensor is not dense");
  EXPECT_EQ(refusal([&] { check_root("broadcast", 2, 2); }),
            "broadcast: root 2 is not one of 2 ranks");
}

TEST(TensorChecks, SumHalfTypesOnly) {
  const auto half = torch::zeros({2}, torch::kHalf);
  EXPECT_TRUE(is_half(at::kHalf));
  EXPECT_TRUE(is_half(at::kBFloat16));
  EXPECT_FALSE(is_half(at::kFloat));
  EXPECT_EQ(refusal([&] { check_reduced("all_reduce", half, ReduceOp::kSum); }), "accepted");
  EXPECT_EQ(refusal([&] { check_reduced("all_reduce", half, ReduceOp::kMin); }),
            "all_reduce: half types can only be summed; use float32 for min");
}

TEST(TensorChecks, SizesFitTheRanks) {
  const auto part = torch::zeros({2, 3});
  const auto whole = torch::zeros({24});
  EXPECT_EQ(refusal([&] { check_gathered(part, whole, 4); }), "accepted");
  EXPECT_EQ(refusal([&] { check_gathered(part, whole, 3); }),
            "all_gather: 24 elements are not 3 ranks times 6");
  EXPECT_EQ(refusal([&] { check_scattered(whole, part, ReduceOp::kSum, 4); }), "accepted");
  EXPECT_EQ(refusal([&] { check_scattered(part, whole, ReduceOp::kSum, 4); }),
            "reduce_scatter: 6 elements are not 4 ranks times 24");
  EXPECT_EQ(refusal([&] { check_gathered(part, whole.to(torch::kHalf), 4); }),
            "all_gather: input and output differ in dtype or device");
}

}  // namespace
}  // namespace longship::comm
