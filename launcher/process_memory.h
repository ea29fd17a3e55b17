#pragma once

namespace longship::launcher {

// Lets the C library keep memory that is freed instead of handing it back to the system. A training
// step on a CPU asks for the same large tensors every time; where each comes from the system anew,
// mapping and clearing their pages takes as long as a tenth of the step. Does nothing where the
// library cannot, or where MALLOC_MMAP_MAX_ or MALLOC_TRIM_THRESHOLD_ is set in the environment.
void keep_freed_memory();

}  // namespace longship::launcher
