# cmake --install, and what find_package(kolo) reads afterwards: the component `library` (kolo::comm, kolo::parallel and what they
# need: MPI unless KOLO_MPI leaves it out, LibTorch, fmt), `online` (kolo::online, and what it needs more), `c` and `fortran` (the shared library, which needs MPI's
# header alone) and `trainer` (everything else, and the program). Packages are cut otherwise: into the
# install components `program` and `development` (KoloPackage.cmake).
include(CMakePackageConfigHelpers)

set(destination ${CMAKE_INSTALL_LIBDIR}/cmake/kolo)
install(EXPORT kolo-library-targets NAMESPACE kolo:: DESTINATION ${destination})
set(KOLO_WHY_NO_BINDINGS "with KOLO_BUILD_BINDINGS=OFF or KOLO_BUILD_TRAINER=OFF")
if(NOT KOLO_HAS_MPI)
  set(KOLO_WHY_NO_BINDINGS "without MPI (KOLO_MPI), which programs in C and Fortran bring along")
endif()
if(KOLO_HAS_BINDINGS)
  install(EXPORT kolo-c-targets NAMESPACE kolo:: DESTINATION ${destination})
  install(FILES ${PROJECT_SOURCE_DIR}/cmake/kolo-fortran.cmake DESTINATION ${destination})
endif()
if(KOLO_BUILD_TRAINER)
  install(EXPORT kolo-online-targets NAMESPACE kolo:: DESTINATION ${destination})
  install(EXPORT kolo-trainer-targets NAMESPACE kolo:: DESTINATION ${destination})
  install(TARGETS kolo_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
  install(PROGRAMS ${PROJECT_SOURCE_DIR}/scripts/plot RENAME kolo-plot DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
  # As they lie in the sources: the job scripts look for one another.
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/configs ${PROJECT_SOURCE_DIR}/submit DESTINATION ${CMAKE_INSTALL_DATADIR}/kolo
          USE_SOURCE_PERMISSIONS COMPONENT program)
  # For environment-modules and Lmod: module use PREFIX/share/kolo/modulefiles
  install(FILES ${PROJECT_SOURCE_DIR}/packaging/modulefiles/kolo.lua RENAME ${PROJECT_VERSION}.lua
          DESTINATION ${CMAKE_INSTALL_DATADIR}/kolo/modulefiles/kolo COMPONENT program)
  install(FILES ${PROJECT_SOURCE_DIR}/packaging/modulefiles/kolo.tcl RENAME ${PROJECT_VERSION}
          DESTINATION ${CMAKE_INSTALL_DATADIR}/kolo/modulefiles/kolo COMPONENT program)
endif()
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/CHANGELOG.md
        DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/kolo-config.cmake.in ${PROJECT_BINARY_DIR}/kolo-config.cmake
                              INSTALL_DESTINATION ${destination} PATH_VARS CMAKE_INSTALL_DATADIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/kolo-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/kolo-config.cmake ${PROJECT_BINARY_DIR}/kolo-config-version.cmake
              ${PROJECT_SOURCE_DIR}/cmake/kolo-torch.cmake DESTINATION ${destination})
