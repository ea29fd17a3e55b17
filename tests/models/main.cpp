#include <ATen/Parallel.h>
#include <gtest/gtest.h>

// One thread an operation: the tensors are too small for more.
int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  at::set_num_threads(1);
  return RUN_ALL_TESTS();
}
