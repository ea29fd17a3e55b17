#include "launcher/process_memory.h"

#include <cstdlib>
#include <initializer_list>
#include <limits>

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace longship::launcher {

void keep_freed_memory() {
#ifdef __GLIBC__
  for (const char* variable : {"MALLOC_MMAP_MAX_", "MALLOC_TRIM_THRESHOLD_"}) {
    if (std::getenv(variable) != nullptr) return;
  }
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
#endif
}

}  // namespace longship::launcher
