# What find_package(Torch), which comes after this, leaves to chance: for kolo's build, and for programs that find an installed kolo
# (kolo-config.cmake), maybe in several folders of theirs.

# LibTorch's own package asks for this machine's GPUs otherwise, by a program that CMake 3.25 cannot build with CUDA 13. These are
# A100 and H100 with their like; later ones compile the last when a program starts.
if(NOT DEFINED TORCH_CUDA_ARCH_LIST AND NOT DEFINED ENV{TORCH_CUDA_ARCH_LIST})
  set(TORCH_CUDA_ARCH_LIST 8.0 9.0+PTX)
endif()

# The half of LibTorch's package that is called Caffe2 is another LibTorch's, where Torch_DIR is given and the system has one.
if(Torch_DIR AND NOT Caffe2_DIR AND EXISTS ${Torch_DIR}/../Caffe2/Caffe2Config.cmake)
  set(Caffe2_DIR ${Torch_DIR}/../Caffe2)
endif()

# kolo_take_torch(TARGET): TARGET brings the LibTorch that find_package(Torch) has found. Mends TORCH_LIBRARIES, too.
macro(kolo_take_torch target)
  # LibTorch's package looks for c10 in the system's folders before its own, where another LibTorch may be.
  list(TRANSFORM TORCH_LIBRARIES REPLACE "^/.*/libc10\\.so$" c10)
  # A LibTorch with CUDA says itself where its NCCL and the like lie; the linker would look elsewhere first, and miss what others lack.
  if(TARGET torch_cuda)
    set_property(TARGET torch PROPERTY INTERFACE_LINK_OPTIONS LINKER:--allow-shlib-undefined)
  endif()
  # The system's libstdc++ comes first. pip's LibTorch exports functions of its own one, std::filesystem's among them, of which
  # remove_all() calls a null pointer (2.11); a program that is linked with LibTorch first takes these for its own.
  if(CMAKE_SYSTEM_NAME STREQUAL Linux)
    set_property(TARGET ${target} APPEND PROPERTY INTERFACE_LINK_OPTIONS
      "SHELL:-Wl,--push-state,--no-as-needed -lstdc++ -Wl,--pop-state")
  endif()
  # GCC's OpenMP: LibTorch's own, where it brings one along, so that there is one set of threads.
  file(GLOB kolo_openmp ${TORCH_INSTALL_PREFIX}/lib/libgomp*.so*)
  list(APPEND kolo_openmp gomp)
  list(GET kolo_openmp 0 kolo_openmp)
  set_property(TARGET ${target} PROPERTY INTERFACE_LINK_LIBRARIES "$<BUILD_INTERFACE:${TORCH_LIBRARIES}>" "$<BUILD_INTERFACE:${kolo_openmp}>")
  get_target_property(kolo_fmt_headers fmt::fmt INTERFACE_INCLUDE_DIRECTORIES)
  kolo_prefer_headers(${target} fmt "${kolo_fmt_headers}")
endmacro()

# kolo_prefer_headers(TARGET NAME FOLDER): <NAME/...> is FOLDER/NAME/... for what links TARGET, also where LibTorch's folder of headers
# has such files: pip's brings those of other libraries along, of other versions and without the libraries.
function(kolo_prefer_headers target name folder)
  list(GET TORCH_INCLUDE_DIRS 0 torch_folder)
  file(REAL_PATH ${folder}/${name} ours)
  file(REAL_PATH ${torch_folder}/${name} theirs)
  if(EXISTS ${theirs} AND NOT theirs STREQUAL ours)
    set(preferred ${CMAKE_BINARY_DIR}/preferred_headers)
    file(MAKE_DIRECTORY ${preferred})
    file(CREATE_LINK ${ours} ${preferred}/${name} SYMBOLIC)
    foreach(property INTERFACE_INCLUDE_DIRECTORIES INTERFACE_SYSTEM_INCLUDE_DIRECTORIES)
      set_property(TARGET ${target} PROPERTY ${property} "$<BUILD_INTERFACE:${preferred}>")
    endforeach()
  endif()
endfunction()
