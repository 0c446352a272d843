# Libraries that LibTorch names and takes nothing from. Debian 12's names OpenCV's and FFmpeg's, and by them GDAL, Qt and some 180 more, which
# a process then loads: half of what starting a program costs, 59 MiB in each rank, and as many files to open on each node.
#
# Empty libraries of the same names take their place in kolo's own programs. The dynamic linker finds them first by the program's DT_RPATH,
# which, other than DT_RUNPATH, counts for what its libraries name too. Not in programs of others, which may well use OpenCV.
#
#   kolo_leave_out_unused(PROGRAM)
set(kolo_unused_folder ${PROJECT_BINARY_DIR}/unused_libraries)
set(kolo_installed_unused_folder ${CMAKE_INSTALL_LIBDIR}/kolo/unused_libraries)

# The names of those that match REGEX in the DT_NEEDED of LIBRARY, but define none of the symbols that it lacks.
function(kolo_find_unused library regex result)
  execute_process(COMMAND ${CMAKE_READELF} -d ${library} OUTPUT_VARIABLE sections COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND ${CMAKE_NM} -D --undefined-only ${library} OUTPUT_VARIABLE lacking COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "NEEDED[^\n]*\\[${regex}[^]\n]*\\]" needed "${sections}")
  string(REGEX MATCHALL " [^ @\n]+(@[^\n]*)?\n" wanted "${lacking}")
  list(TRANSFORM wanted REPLACE "@.*" "")
  list(TRANSFORM wanted STRIP)
  list(LENGTH wanted all)
  set(unused)
  foreach(entry ${needed})
    string(REGEX REPLACE ".*\\[(.*)\\]" "\\1" name "${entry}")
    find_library(kolo_needed_library ${name} NO_CACHE)
    if(NOT kolo_needed_library)
      continue()
    endif()
    execute_process(COMMAND ${CMAKE_NM} -D --defined-only --format=posix ${kolo_needed_library} OUTPUT_VARIABLE defined
                    COMMAND_ERROR_IS_FATAL ANY)
    unset(kolo_needed_library)
    string(REGEX MATCHALL "(^|\n)[^ @\n]+" symbols "${defined}")
    if(NOT wanted OR NOT symbols)  # a list that was not understood shows nothing
      continue()
    endif()
    list(TRANSFORM symbols STRIP)
    set(others ${wanted})
    list(REMOVE_ITEM others ${symbols})
    list(LENGTH others rest)
    if(all EQUAL rest)
      list(APPEND unused ${name})
    endif()
  endforeach()
  set(${result} ${unused} PARENT_SCOPE)
endfunction()

kolo_find_unused(${torch_library} "lib(opencv_|av|sw)" kolo_unused_libraries)

file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/unused_library.c CONTENT "typedef int nothing;\n")
foreach(name ${kolo_unused_libraries})
  string(MAKE_C_IDENTIFIER kolo_unused_${name} target)
  add_library(${target} SHARED ${PROJECT_BINARY_DIR}/unused_library.c)
  set_target_properties(${target} PROPERTIES PREFIX "" OUTPUT_NAME ${name} SUFFIX "" LIBRARY_OUTPUT_DIRECTORY ${kolo_unused_folder})
  install(TARGETS ${target} LIBRARY DESTINATION ${kolo_installed_unused_folder} COMPONENT program)
endforeach()

function(kolo_leave_out_unused program)
  if(NOT kolo_unused_libraries)
    return()
  endif()
  foreach(name ${kolo_unused_libraries})
    string(MAKE_C_IDENTIFIER kolo_unused_${name} target)
    add_dependencies(${program} ${target})
  endforeach()
  file(RELATIVE_PATH from_programs ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_PREFIX}/${kolo_installed_unused_folder})
  set_property(TARGET ${program} APPEND PROPERTY BUILD_RPATH ${kolo_unused_folder})
  set_property(TARGET ${program} APPEND PROPERTY INSTALL_RPATH $ORIGIN/${from_programs})
  target_link_options(${program} PRIVATE LINKER:--disable-new-dtags)
endfunction()
