# oneDNN, for kolo's own convolutions: KOLO_HAS_ONEDNN, and kolo::dnnl where that is ON.
#
# A process holds one oneDNN. Debian's LibTorch links the library that kolo links. pip's has one of its own inside, and although that
# shows no function of oneDNN's interface, it shows the local functions by which oneDNN fills its tables once (std::call_once): with
# another oneDNN beside it, the dynamic linker gives those of one to both, and the other's tables stay empty. Its products of matrices
# then fail, or, if it was loaded first, LibTorch's own.

# Which oneDNN LibTorch computes by: "none", "NAME" of the shared library, or "inside".
function(kolo_onednn_of_torch result)
  list(GET TORCH_INCLUDE_DIRS 0 folder)
  file(STRINGS ${folder}/ATen/Config.h enabled REGEX "AT_MKLDNN_ENABLED\\(\\) 1")
  if(NOT enabled)
    set(${result} none PARENT_SCOPE)
    return()
  endif()
  execute_process(COMMAND ${CMAKE_READELF} -d ${torch_library} OUTPUT_VARIABLE sections COMMAND_ERROR_IS_FATAL ANY)
  if(sections MATCHES "NEEDED[^\n]*\\[(libdnnl\\.so[^]]*)\\]")
    set(${result} ${CMAKE_MATCH_1} PARENT_SCOPE)
  else()
    set(${result} inside PARENT_SCOPE)
  endif()
endfunction()

# Why kolo's own oneDNN is left out; empty where it isn't.
function(kolo_reason_against_onednn result)
  set(${result} "" PARENT_SCOPE)
  if(NOT DNNL_LIBRARY OR NOT DNNL_INCLUDE_DIR)
    set(${result} "oneDNN was not found (libdnnl-dev; -D DNNL_DIR=FOLDER for one elsewhere)" PARENT_SCOPE)
    return()
  endif()
  kolo_onednn_of_torch(theirs)
  file(REAL_PATH ${DNNL_LIBRARY} ours)
  execute_process(COMMAND ${CMAKE_READELF} -d ${ours} OUTPUT_VARIABLE sections COMMAND_ERROR_IS_FATAL ANY)
  string(FIND "${sections}" "[${theirs}]" place)
  if(NOT theirs STREQUAL none AND place EQUAL -1)
    set(${result} "LibTorch computes by another oneDNN (${theirs}) than ${DNNL_LIBRARY}, and a process can't hold both" PARENT_SCOPE)
  endif()
endfunction()

set(KOLO_HAS_ONEDNN OFF)
if(NOT KOLO_ONEDNN STREQUAL OFF)
  # oneDNN's own CMake package asks for OpenCL, which nothing here uses.
  find_path(DNNL_INCLUDE_DIR oneapi/dnnl/dnnl.hpp HINTS ${DNNL_DIR} PATH_SUFFIXES include)
  find_library(DNNL_LIBRARY dnnl HINTS ${DNNL_DIR} PATH_SUFFIXES lib)
  kolo_reason_against_onednn(reason)
  if(NOT reason)
    set(KOLO_HAS_ONEDNN ON)
  elseif(KOLO_ONEDNN STREQUAL AUTO)
    message(NOTICE "kolo is built without oneDNN of its own, by LibTorch's convolutions: ${reason}; -D KOLO_ONEDNN=OFF is content without")
  else()
    message(FATAL_ERROR "KOLO_ONEDNN=${KOLO_ONEDNN}: ${reason}. Accepted are AUTO (take it where it can be), ON and OFF")
  endif()
endif()

if(KOLO_HAS_ONEDNN)
  add_library(kolo_dnnl INTERFACE)
  add_library(kolo::dnnl ALIAS kolo_dnnl)
  set_target_properties(kolo_dnnl PROPERTIES EXPORT_NAME dnnl)
  target_include_directories(kolo_dnnl SYSTEM INTERFACE $<BUILD_INTERFACE:${DNNL_INCLUDE_DIR}>)
  target_link_libraries(kolo_dnnl INTERFACE ${DNNL_LIBRARY})
  install(TARGETS kolo_dnnl EXPORT kolo-online-targets)
endif()
