# How every target of the project is built: language, warnings, sanitizers, and one function a kind of target.
include(GNUInstallDirs)
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME development)  # what is not the program's

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

# Libraries and programs are compiled alike (-fPIC rather than CMake's -fPIC/-fPIE), because they share one precompiled header of
# LibTorch, which takes longer to parse than anything written here.
add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:-fPIC> $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-fPIC>)

add_library(kolo_warnings INTERFACE)
set(warnings -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor
  -Wno-missing-field-initializers)  # what is left out of a designated initializer has its default
if(KOLO_WERROR)
  list(APPEND warnings -Werror)
endif()
target_compile_options(kolo_warnings INTERFACE "$<$<COMPILE_LANGUAGE:C,CXX>:${warnings}>")

if(KOLO_SANITIZE)
  add_compile_options("$<$<COMPILE_LANGUAGE:C,CXX>:-fsanitize=${KOLO_SANITIZE};-fno-omit-frame-pointer;-fno-sanitize-recover=all>")
  add_link_options(-fsanitize=${KOLO_SANITIZE})
endif()

# kolo_compile_together(TARGET): eight sources at a time as one. Most of a source's time goes into what its headers instantiate, which
# is then done once for eight. Names in anonymous namespaces have to be unique in such a target. Not sources with options of their own.
function(kolo_compile_together target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${KOLO_COMPILE_TOGETHER} UNITY_BUILD_BATCH_SIZE 8)
  # GCC takes a source that is included for a header, in which a member of a type of its own would be a mistake.
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
endfunction()

# kolo_add_plain_sources(TARGET SOURCES...): sources of TARGET that are compiled together, with its definitions and without its
# precompiled header, as the target TARGET_plain. Before this call TARGET has all that it links.
function(kolo_add_plain_sources target)
  add_library(${target}_plain OBJECT ${ARGN})
  target_include_directories(${target}_plain PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  target_compile_features(${target}_plain PRIVATE cxx_std_20)
  target_compile_definitions(${target}_plain PRIVATE $<TARGET_PROPERTY:${target},COMPILE_DEFINITIONS>)
  get_target_property(links ${target} LINK_LIBRARIES)
  target_link_libraries(${target}_plain PRIVATE ${links})
  kolo_compile_together(${target}_plain)
  target_sources(${target} PRIVATE $<TARGET_OBJECTS:${target}_plain>)
endfunction()

# kolo_add_room(NAME [TORCH] [DECIDES] SOURCES ... [PLAIN_SOURCES ...] [LINKS ...] [PRIVATE_LINKS ...] [EXPORT SET])
#
# One room of the house: the static library kolo_NAME, used as kolo::NAME. LINKS are the rooms and packages its public headers
# need; that a room links only rooms below it is what keeps the floors apart. TORCH: shares the precompiled LibTorch header.
# PLAIN_SOURCES: those of such a room that don't reach LibTorch's headers (scripts/house --torch names the others); they are parsed
# in two thirds of the time without the precompiled header. DECIDES: sources without LibTorch decide and write, but don't compute: with -O1,
# which compiles them in two thirds of the time. Sources are compiled together.
function(kolo_add_room name)
  cmake_parse_arguments(room "TORCH;DECIDES" "EXPORT" "SOURCES;PLAIN_SOURCES;LINKS;PRIVATE_LINKS" ${ARGN})
  set(target kolo_${name})
  add_library(${target} STATIC ${room_SOURCES})
  add_library(kolo::${name} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                              $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
                                      PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_link_libraries(${target} PUBLIC ${room_LINKS} PRIVATE $<BUILD_INTERFACE:kolo_warnings>)
  if(room_PRIVATE_LINKS)
    target_link_libraries(${target} PRIVATE ${room_PRIVATE_LINKS})
  endif()
  if(room_TORCH)
    target_precompile_headers(${target} REUSE_FROM kolo_torch_header)
    target_link_libraries(${target} PUBLIC kolo::torch)
  endif()
  kolo_compile_together(${target})
  if(room_PLAIN_SOURCES)
    kolo_add_plain_sources(${target} ${room_PLAIN_SOURCES})
  endif()
  if(room_DECIDES AND room_TORCH)
    target_compile_options(${target}_plain PRIVATE $<$<CONFIG:Release>:-O1>)
  elseif(room_DECIDES)
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  endif()
  if(NOT room_EXPORT)
    set(room_EXPORT kolo-trainer-targets)
  endif()
  install(TARGETS ${target} EXPORT ${room_EXPORT} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  if(IS_DIRECTORY ${PROJECT_SOURCE_DIR}/include/kolo/${name})
    install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/kolo/${name} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/kolo)
  endif()
endfunction()

# kolo_add_device_sources(TARGET CUDA ... LEFT_OUT ...): the sources of a room that work with CUDA devices, .cpp and .cu, and those
# that take their place where kolo is built without (KOLO_CUDA). Kernels round as the processor's loops do: no fused multiply-add
# where the source has none, square roots and quotients as IEEE 754 wants them (nvcc's default).
function(kolo_add_device_sources target)
  cmake_parse_arguments(device "" "" "CUDA;LEFT_OUT" ${ARGN})
  if(KOLO_HAS_CUDA)
    target_sources(${target} PRIVATE ${device_CUDA})
    target_link_libraries(${target} PRIVATE kolo::cuda)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-fmad=false>)
    set_source_files_properties(${device_CUDA} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    if(KOLO_FAKE_CUDA)
      kolo_fake_kernels(${device_CUDA})
    endif()
  else()
    target_sources(${target} PRIVATE ${device_LEFT_OUT})
  endif()
endfunction()

# kolo_add_catalogue(TARGET FUNCTION NAME ENTRY TYPE NAMESPACE NAME HEADER FILE [FOLDER NAME | FILE SOURCE] ENTRIES ...): what a
# configuration chooses from by name. Each entry is a source FOLDER/ENTRY.cpp (catalogue/ unless given), which defines
# kolo::NAMESPACE::ENTRY(); ENTRY:FILE is one that shares FOLDER/FILE.cpp with its family. With FILE all entries are in that source.
# FUNCTION, declared in HEADER, returns all.
function(kolo_add_catalogue target)
  cmake_parse_arguments(catalogue "" "FUNCTION;ENTRY;NAMESPACE;HEADER;FOLDER;FILE" "ENTRIES" ${ARGN})
  if(NOT catalogue_FOLDER)
    set(catalogue_FOLDER catalogue)
  endif()
  set(declarations)
  set(calls)
  set(files)
  foreach(listed ${catalogue_ENTRIES})
    string(REGEX REPLACE ":.*" "" entry ${listed})
    string(REGEX REPLACE ".*:" "" file ${listed})
    string(APPEND declarations "${catalogue_ENTRY} ${entry}();\n")
    string(APPEND calls "      ${catalogue_NAMESPACE}::${entry}(),\n")
    list(APPEND files ${catalogue_FOLDER}/${file}.cpp)
  endforeach()
  if(catalogue_FILE)
    set(files ${catalogue_FILE})
  endif()
  list(REMOVE_DUPLICATES files)
  target_sources(${target} PRIVATE ${files})
  set(made ${CMAKE_CURRENT_BINARY_DIR}/${catalogue_FUNCTION}.cpp)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/catalogue.cpp.in ${made} @ONLY)
  target_sources(${target} PRIVATE ${made})
endfunction()

# kolo_add_program(TARGET [TORCH] SOURCES ... LINKS ...): a test, benchmark or tool that is not installed. TORCH: shares the precompiled
# header kolo_program_header, which is that of LibTorch, and for tests one with more in it.
set(kolo_program_header kolo_torch_header)
function(kolo_add_program target)
  cmake_parse_arguments(program "TORCH" "" "SOURCES;LINKS" ${ARGN})
  add_executable(${target} ${program_SOURCES})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${target} PRIVATE ${program_LINKS} kolo_warnings)
  kolo_leave_out_unused(${target})
  if(program_TORCH)
    target_precompile_headers(${target} REUSE_FROM ${kolo_program_header})
    target_link_libraries(${target} PRIVATE kolo::torch)
  endif()
endfunction()

# kolo_allow_autograd_functions(SOURCE...): sources that derive from torch::autograd::Function. GCC 14 sees writes out of bounds in
# its apply(), where there are none.
function(kolo_allow_autograd_functions)
  set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS "-Wno-array-bounds;-Wno-stringop-overflow")
endfunction()
