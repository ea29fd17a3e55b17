#include <ATen/Parallel.h>
#include <gtest/gtest.h>

// Ranks are threads here. If each brought a team of OpenMP threads of its own, they would spin for
// the few cores and the tests take minutes.
int main(int argc, char** argv) {
  at::set_num_threads(1);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
