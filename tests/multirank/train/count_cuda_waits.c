// Preloaded into a training: counts the calls of CUDA's runtime that make the host wait for the GPU, or
// may, and writes the counts as JSON to the file that LONGSHIP_CUDA_WAITS names at the end.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

enum { kCalls = 12 };
static const char* const names[kCalls] = {
    "cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaEventSynchronize", "cudaMemcpy",
    "cudaMemcpyToSymbol",    "cudaMemset",            "cudaMalloc",           "cudaFree",
    "cudaHostAlloc",         "cudaMallocHost",        "cudaFreeHost",         "cudaMemcpy2D"};
static atomic_long counts[kCalls];

typedef int (*Function)(void*, void*, void*, void*, void*, void*, void*);

static int forward(int call, void* a, void* b, void* c, void* d, void* e, void* f, void* g) {
  static _Atomic(Function) real[kCalls];
  Function function = atomic_load(&real[call]);
  if (function == NULL) {
    *(void**)&function = dlsym(RTLD_NEXT, names[call]);
    if (function == NULL) abort();
    atomic_store(&real[call], function);
  }
  atomic_fetch_add(&counts[call], 1);
  return function(a, b, c, d, e, f, g);
}

// All arguments are of integer class, so passing on more than a function takes is harmless.
#define COUNTED(name, call)                                                                   \
  int name(void* a, void* b, void* c, void* d, void* e, void* f, void* g) {                   \
    return forward(call, a, b, c, d, e, f, g);                                                \
  }
COUNTED(cudaDeviceSynchronize, 0)
COUNTED(cudaStreamSynchronize, 1)
COUNTED(cudaEventSynchronize, 2)
COUNTED(cudaMemcpy, 3)
COUNTED(cudaMemcpyToSymbol, 4)
COUNTED(cudaMemset, 5)
COUNTED(cudaMalloc, 6)
COUNTED(cudaFree, 7)
COUNTED(cudaHostAlloc, 8)
COUNTED(cudaMallocHost, 9)
COUNTED(cudaFreeHost, 10)
COUNTED(cudaMemcpy2D, 11)

__attribute__((destructor)) static void report(void) {
  const char* path = getenv("LONGSHIP_CUDA_WAITS");
  FILE* file = path != NULL ? fopen(path, "w") : NULL;
  if (file == NULL) return;
  for (int call = 0; call < kCalls; ++call) {
    fprintf(file, "%s\"%s\": %ld", call == 0 ? "{" : ", ", names[call], atomic_load(&counts[call]));
  }
  fprintf(file, "}\n");
  fclose(file);
}
