# Compile options of every target, and interface targets for libraries without a package file.
add_library(longship_options INTERFACE)

# LibTorch's wheel ships headers of another fmt than the system's spdlog is built with. A folder that
# holds only a link to the system's fmt, placed first, makes the right one win.
find_path(FMT_SYSTEM_DIR fmt/format.h HINTS ENV CMAKE_PREFIX_PATH PATHS /usr/include /usr/local/include
          PATH_SUFFIXES include NO_DEFAULT_PATH REQUIRED)
set(fmt_first "${CMAKE_BINARY_DIR}/include/fmt_first")
file(MAKE_DIRECTORY "${fmt_first}")
file(CREATE_LINK "${FMT_SYSTEM_DIR}/fmt" "${fmt_first}/fmt" SYMBOLIC)
target_include_directories(longship_options BEFORE INTERFACE "${fmt_first}")

get_target_property(torch_includes torch INTERFACE_INCLUDE_DIRECTORIES)
target_include_directories(longship_options SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})
target_link_libraries(longship_options INTERFACE ${TORCH_LIBRARIES} Threads::Threads)
target_compile_options(longship_options INTERFACE -pthread
  "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Wshadow;-Wnon-virtual-dtor>"
  # GCC 12 finds overflows in std::string's own operator+ that are not there; GCC 13 takes a reference
  # from any function that also gets a temporary for one into it.
  "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-stringop-overflow;-Wno-restrict;-Wno-array-bounds;-Wno-dangling-reference>"
  "$<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${LONGSHIP_WERROR}>>:-Werror>")
# libtorch.so exports std::filesystem functions of the compiler it was built with, some of which jump
# to null here (remove_all does). The system's libstdc++, loaded first, serves the programs instead.
target_link_options(longship_options INTERFACE
  "SHELL:-Wl,--push-state,--no-as-needed -lstdc++ -Wl,--pop-state")
# With one of its own in the program, and LibTorch's beside it, that order cannot be had.
try_compile(LONGSHIP_LINKS SOURCE_FROM_CONTENT links.cpp "int main() { throw 1; }"
            COPY_FILE "${CMAKE_BINARY_DIR}/links")
execute_process(COMMAND "${CMAKE_READELF}" -d "${CMAKE_BINARY_DIR}/links" OUTPUT_VARIABLE needed)
if(NOT needed MATCHES "libstdc\\+\\+\\.so")
  message(FATAL_ERROR "${CMAKE_CXX_COMPILER} links libstdc++ statically, and LibTorch brings the "
    "shared one: two of them in one program crash. Name another compiler: CXX=/usr/bin/g++ "
    "CUDAHOSTCXX=/usr/bin/g++, in a fresh build folder.")
endif()
target_compile_definitions(longship_options INTERFACE LONGSHIP_VERSION="${PROJECT_VERSION}")
if(LONGSHIP_SANITIZE STREQUAL "address")
  target_compile_options(longship_options INTERFACE
    "$<$<COMPILE_LANGUAGE:CXX>:-fsanitize=address,undefined;-fno-sanitize-recover=undefined;-fno-omit-frame-pointer>")
  target_link_options(longship_options INTERFACE -fsanitize=address,undefined)
elseif(LONGSHIP_SANITIZE STREQUAL "thread")
  # What the sanitizer inserts keeps GCC from seeing that an optional is set where it is read.
  target_compile_options(longship_options INTERFACE
    "$<$<COMPILE_LANGUAGE:CXX>:-fsanitize=thread;-fno-omit-frame-pointer;-Wno-maybe-uninitialized>")
  target_link_options(longship_options INTERFACE -fsanitize=thread)
elseif(LONGSHIP_SANITIZE)
  message(FATAL_ERROR "LONGSHIP_SANITIZE is '${LONGSHIP_SANITIZE}', not 'address' or 'thread'")
endif()

add_library(longship_hdf5 INTERFACE)
target_include_directories(longship_hdf5 SYSTEM INTERFACE ${HDF5_C_INCLUDE_DIRS})
target_link_libraries(longship_hdf5 INTERFACE ${HDF5_C_LIBRARIES})

add_library(longship_header_libraries INTERFACE)
target_include_directories(longship_header_libraries SYSTEM INTERFACE
  ${XXHASH_INCLUDE_DIR} ${FAST_FLOAT_INCLUDE_DIR} ${CXXOPTS_INCLUDE_DIR})
target_compile_definitions(longship_header_libraries INTERFACE XXH_INLINE_ALL
  # A comma in a path is no separator; nothing that a user types holds this character.
  "CXXOPTS_VECTOR_DELIMITER='\\x1f'")

# Holds nothing but the precompiled headers that the other targets reuse. ATen alone: with all of
# torch/torch.h every file, however small, would pay seconds for instantiating its templates.
file(WRITE "${CMAKE_BINARY_DIR}/pch.cpp.in" "// ATen's headers, compiled once.\n")
file(COPY_FILE "${CMAKE_BINARY_DIR}/pch.cpp.in" "${CMAKE_BINARY_DIR}/pch.cpp" ONLY_IF_DIFFERENT)
add_library(longship_pch OBJECT "${CMAKE_BINARY_DIR}/pch.cpp")
target_link_libraries(longship_pch PUBLIC longship_options)
target_precompile_headers(longship_pch PRIVATE
  <ATen/ATen.h> <map> <memory> <optional> <span> <string> <string_view> <vector>)
