# What scripts/setup.sh found or installed: the virtual environment with LibTorch, the CUDA toolkit,
# ccache. Included before project(), because the CUDA compiler must be known there.
set(LONGSHIP_ENVIRONMENT "${CMAKE_SOURCE_DIR}/build/environment.cmake")
if(EXISTS "${LONGSHIP_ENVIRONMENT}")
  include("${LONGSHIP_ENVIRONMENT}")
elseif(NOT DEFINED LONGSHIP_SITE_PACKAGES)
  message(FATAL_ERROR
    "No build/environment.cmake: run scripts/setup.sh first (make does), or give "
    "-DLONGSHIP_SITE_PACKAGES=<folder that holds torch/ and nvidia/> and CMAKE_CUDA_COMPILER.")
endif()

list(PREPEND CMAKE_PREFIX_PATH "${LONGSHIP_SITE_PACKAGES}/torch/share/cmake")
# LibTorch's own variable; CMAKE_CUDA_ARCHITECTURES is overwritten by its package file.
if(NOT DEFINED ENV{TORCH_CUDA_ARCH_LIST})
  set(TORCH_CUDA_ARCH_LIST "7.5;8.0;9.0+PTX" CACHE STRING "GPU architectures to compile kernels for")
endif()
