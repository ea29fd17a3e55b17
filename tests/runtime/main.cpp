#include <ATen/Parallel.h>
#include <gtest/gtest.h>

// One thread an operation: the tests play ranks in threads, and each would bring its own pool.
int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  at::set_num_threads(1);
  return RUN_ALL_TESTS();
}
