#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <memory>

#include "mpi_environment.h"

namespace longship::comm {
namespace {

// Prints the failures of ranks other than 0, with the rank, and nothing else.
class FailurePrinter final : public testing::EmptyTestEventListener {
 public:
  explicit FailurePrinter(int rank) : rank_(rank) {}
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::cerr << "rank " << rank_ << ": " << (result.file_name() ? result.file_name() : "") << ':'
              << result.line_number() << ": " << result.message() << std::endl;
  }

 private:
  int rank_;
};

int run_tests() {
  MpiEnvironment environment(std::chrono::seconds(60));
  auto& listeners = testing::UnitTest::GetInstance()->listeners();
  if (environment.runtime().rank() != 0) {
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new FailurePrinter(environment.runtime().rank()));
  }
  return RUN_ALL_TESTS();
}

}  // namespace
}  // namespace longship::comm

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  return longship::comm::run_tests();
}
