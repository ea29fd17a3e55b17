# One library per folder. A library sees only the folders that the design allows it: every target's
# include path holds links to its own folder and to those of its dependencies, not the source root.

# longship_library(FOLDER comm DEPENDS data models LINK_PUBLIC ... LINK_PRIVATE ...)
function(longship_library)
  cmake_parse_arguments(ARG "" "FOLDER" "DEPENDS;LINK_PUBLIC;LINK_PRIVATE" ${ARGN})
  set(target longship_${ARG_FOLDER})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/${ARG_FOLDER}/*.cpp"
       "${CMAKE_SOURCE_DIR}/${ARG_FOLDER}/*.cu")
  list(FILTER sources EXCLUDE REGEX "/main\\.cpp$")

  set(include_root "${CMAKE_BINARY_DIR}/include/${ARG_FOLDER}")
  file(MAKE_DIRECTORY "${include_root}")
  file(CREATE_LINK "${CMAKE_SOURCE_DIR}/${ARG_FOLDER}" "${include_root}/${ARG_FOLDER}" SYMBOLIC)

  list(TRANSFORM ARG_DEPENDS PREPEND longship_)
  add_library(${target} STATIC ${sources})
  set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX)
  target_include_directories(${target} PUBLIC "${include_root}")
  target_link_libraries(${target} PUBLIC longship_options ${ARG_DEPENDS} ${ARG_LINK_PUBLIC}
                                  PRIVATE ${ARG_LINK_PRIVATE})
  longship_reuse_pch(${target})
endfunction()

# ATen's headers cost seconds of compile time a file; they are compiled once.
function(longship_reuse_pch target)
  cmake_parse_arguments(ARG "" "FROM" "" ${ARGN})
  if(NOT ARG_FROM)
    set(ARG_FROM longship_pch)
  endif()
  target_precompile_headers(${target} REUSE_FROM ${ARG_FROM})
  # Programs would be compiled with -fPIE, which does not take headers that were compiled with -fPIC.
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:-fPIC>")
endfunction()

# longship_unit_tests(FOLDER comm LINK ...): tests/FOLDER/*_test.cpp as one program and one test.
function(longship_unit_tests)
  cmake_parse_arguments(ARG "" "FOLDER" "LINK;LABELS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/tests/${ARG_FOLDER}/*.cpp")
  if(NOT sources)
    return()
  endif()
  set(target longship_${ARG_FOLDER}_tests)
  add_executable(${target} ${sources})
  target_link_libraries(${target} PRIVATE ${ARG_LINK} GTest::gmock GTest::gtest)
  target_compile_definitions(${target} PRIVATE
    LONGSHIP_SOURCE_DIR="${CMAKE_SOURCE_DIR}" LONGSHIP_PYTHON="${LONGSHIP_PYTHON}")
  target_compile_options(${target} PRIVATE -O0)
  longship_reuse_pch(${target} FROM longship_test_pch)
  if(NOT EXISTS "${CMAKE_SOURCE_DIR}/tests/${ARG_FOLDER}/main.cpp")
    target_link_libraries(${target} PRIVATE GTest::gtest_main)
  endif()
  add_test(NAME ${ARG_FOLDER} COMMAND ${target})
  set_tests_properties(${ARG_FOLDER} PROPERTIES TIMEOUT 600 LABELS "unit;${ARG_LABELS}")
endfunction()
