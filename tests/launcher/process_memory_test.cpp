#include "launcher/process_memory.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdlib>
#include <cstring>
#include <memory>

namespace longship::launcher {
namespace {

long page_faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

// What a step does again and again.
void use_and_free_memory() {
  constexpr size_t kBytes = size_t{48} << 20;
  const std::unique_ptr<char, decltype(&std::free)> memory(static_cast<char*>(std::malloc(kBytes)),
                                                           &std::free);
  std::memset(memory.get(), 1, kBytes);
  static_cast<void>(*static_cast<volatile char*>(memory.get()));
}

TEST(KeepFreedMemory, MemoryThatIsFreedIsUsedAgainWithoutTheSystem) {
#if !defined(__GLIBC__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "another allocator than glibc's";
#endif
  keep_freed_memory();
  use_and_free_memory();
  const long before = page_faults();
  for (int i = 0; i < 10; ++i) use_and_free_memory();
  // From the system they would be 12288 pages each time.
  EXPECT_LT(page_faults() - before, 1000);
}

}  // namespace
}  // namespace longship::launcher
