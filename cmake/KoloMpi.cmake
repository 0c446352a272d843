# Whether there is MPI: KOLO_HAS_MPI and, where it is, MPI::MPI_C.
#
# KOLO_MPI=AUTO takes the one that is found, ON insists, OFF does without, whatever is installed. Without MPI ranks are those of one machine,
# and sessions, the bindings for C and Fortran, and what is measured against MPI are left out.
set(KOLO_HAS_MPI OFF)
set_property(CACHE KOLO_MPI PROPERTY STRINGS AUTO ON OFF)
if(NOT KOLO_MPI MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "KOLO_MPI is ${KOLO_MPI}; expected AUTO, ON or OFF")
endif()
if(NOT KOLO_MPI STREQUAL OFF)
  find_package(MPI COMPONENTS C)
  if(MPI_C_FOUND)
    set(KOLO_HAS_MPI ON)
  elseif(KOLO_MPI STREQUAL ON)
    message(FATAL_ERROR "KOLO_MPI=ON, but MPI is not found: install the packages libopenmpi-dev and openmpi-bin, or libmpich-dev and mpich, or "
                        "name its compiler, -D MPI_C_COMPILER=mpicc")
  else()
    message(NOTICE "kolo is built without MPI, which is not found (libopenmpi-dev, openmpi-bin): its ranks are those of one machine, and there are "
                   "no sessions and no bindings for C and Fortran; -D KOLO_MPI=OFF is content with that")
  endif()
else()
  message(STATUS "kolo: without MPI (KOLO_MPI=OFF), so ranks are those of one machine")
endif()
