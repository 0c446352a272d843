# Everything comes from the system's packages; nothing is downloaded.
find_package(Threads REQUIRED)
include(KoloMpi)
find_package(fmt REQUIRED)
if(KOLO_BUILD_TRAINER)
  find_package(Protobuf REQUIRED)  # before LibTorch, which otherwise puts an empty one in its place
endif()
# A program with a libstdc++ of its own beside LibTorch's crashes where both touch a file, a stream or a locale.
execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=libstdc++.so OUTPUT_VARIABLE libstdcxx OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(CMAKE_SYSTEM_NAME STREQUAL Linux AND libstdcxx STREQUAL "libstdc++.so")
  message(FATAL_ERROR "${CMAKE_CXX_COMPILER} has no shared libstdc++, so programs would have a static one beside LibTorch's, and crash: take another compiler (CXX=g++)")
endif()
include(KoloCuda)  # LibTorch, and whether there is CUDA with it

# LibTorch's own target spreads its build flags over everything that links it; this one carries the headers (as system headers)
# and the libraries. What is installed leaves out which: kolo-config.cmake puts in the LibTorch of whoever uses it.
add_library(kolo_torch INTERFACE)
add_library(kolo::torch ALIAS kolo_torch)
set_target_properties(kolo_torch PROPERTIES EXPORT_NAME torch)
kolo_take_torch(kolo_torch)
# LibTorch's loops in headers (at::parallel_for) use its threads only in sources that GCC compiles for OpenMP; otherwise one thread makes
# them alone. Clang's OpenMP would have threads of its own, and ThreadSanitizer sees none of GCC's waiting.
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND NOT KOLO_SANITIZE MATCHES thread)
  target_compile_options(kolo_torch INTERFACE $<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CXX>:-fopenmp>>)
endif()
list(GET TORCH_INCLUDE_DIRS 0 torch_headers)
file(REAL_PATH ${torch_headers} torch_headers)
if(NOT torch_headers IN_LIST CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES)
  set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)  # the installed program finds a LibTorch that isn't the system's
endif()
install(TARGETS kolo_torch EXPORT kolo-library-targets)

# The shared library that tells what LibTorch is linked with.
get_target_property(configurations torch_cpu IMPORTED_CONFIGURATIONS)
list(GET configurations 0 configuration)
get_target_property(torch_library torch_cpu IMPORTED_LOCATION_${configuration})
include(KoloUnusedLibraries)

# The precompiled header, shared by every target that includes LibTorch: what most sources need of it. Not <torch/torch.h>,
# whose layers (<torch/nn.h>) are instantiated anew in every source, precompiled or not, used or not. (Tests have one with more in it.)
set(kolo_torch_headers <torch/autograd.h> <torch/nn/module.h> <torch/optim/optimizer.h> <torch/types.h> <torch/utils.h>)
file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/torch_header.cpp CONTENT "")
add_library(kolo_torch_header OBJECT ${PROJECT_BINARY_DIR}/torch_header.cpp)
target_link_libraries(kolo_torch_header PRIVATE kolo::torch kolo_warnings)
target_precompile_headers(kolo_torch_header PRIVATE ${kolo_torch_headers})

if(KOLO_BUILD_TRAINER)
  find_package(ZLIB REQUIRED)
  find_package(JPEG REQUIRED)
  find_package(PNG REQUIRED)
  find_package(nlohmann_json REQUIRED)
  find_package(yaml-cpp REQUIRED)
  find_package(CLI11 REQUIRED)
  find_package(Boost REQUIRED CONFIG)
  find_package(PkgConfig REQUIRED)
  pkg_check_modules(HDF5 REQUIRED IMPORTED_TARGET hdf5)   # PkgConfig::HDF5; CMake's own module wants its compiler wrapper

  include(KoloOneDnn)
endif()
if(KOLO_BUILD_TESTS)
  find_package(GTest REQUIRED)
  find_package(ZLIB REQUIRED)
endif()
if(KOLO_BUILD_BENCHMARKS)
  find_package(benchmark REQUIRED)
endif()
