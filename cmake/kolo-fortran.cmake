# The Fortran module `kolo`, compiled by the project's own compiler, since what compilers write about modules only they can read.
# find_package(kolo COMPONENTS fortran), where the language Fortran is enabled, makes the target kolo::fortran.
#
# kolo_add_fortran_module(NAME TARGET): another copy of it, for other options of the compiler:
#
#   kolo_add_fortran_module(NAME kolo_i8)
#   target_compile_options(kolo_i8 PUBLIC -fdefault-integer-8)

# Path of kolo.F90, said once.
function(kolo_fortran_sources folder)
  set_property(GLOBAL PROPERTY KOLO_FORTRAN_SOURCES ${folder})
endfunction()

function(kolo_add_fortran_module)
  cmake_parse_arguments(module "" "NAME" "" ${ARGN})
  if(NOT module_NAME)
    set(module_NAME kolo_fortran)
  endif()
  if(TARGET ${module_NAME})
    return()
  endif()
  get_property(sources GLOBAL PROPERTY KOLO_FORTRAN_SOURCES)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/${module_NAME}_modules)
  add_library(${module_NAME} STATIC ${sources}/kolo.F90)
  set_target_properties(${module_NAME} PROPERTIES Fortran_MODULE_DIRECTORY ${folder} POSITION_INDEPENDENT_CODE ON)
  target_include_directories(${module_NAME} INTERFACE ${folder})
  target_link_libraries(${module_NAME} PUBLIC kolo::c)
  if(module_NAME STREQUAL kolo_fortran)
    add_library(kolo::fortran ALIAS kolo_fortran)
  endif()
endfunction()
