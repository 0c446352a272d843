# Debian packages of what is built: cpack -G DEB in the build folder makes
#
#   kolo_VERSION_ARCH.deb         the program, configurations, job scripts, documentation, module file
#   libkolo-dev_VERSION_ARCH.deb  headers, libraries and what find_package(kolo) and pkg-config read
#
# They fit the Debian release that they are built on. dpkg-shlibdeps (package dpkg-dev) finds the shared libraries that kolo needs.
set(CPACK_PACKAGE_NAME kolo)
set(CPACK_PACKAGE_CONTACT "The kolo developers <kolo@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_COMPONENTS_ALL program development)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)

# Loaded or started while kolo runs, so that nothing links them: the launcher of the MPI it is built with, if any, and a BLAS that is
# fast; LibTorch is content with any.
set(kolo_launcher_package)
set(kolo_mpi_packages)
if(KOLO_HAS_MPI AND MPI_C_LIBRARIES MATCHES "mpich")
  set(kolo_launcher_package "mpich, ")
  set(kolo_mpi_packages "mpich, libmpich-dev, ")
elseif(KOLO_HAS_MPI)
  set(kolo_launcher_package "openmpi-bin, ")
  set(kolo_mpi_packages "openmpi-bin, libopenmpi-dev, ")
endif()
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME kolo)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_DEPENDS "${kolo_launcher_package}libopenblas0-pthread")
set(CPACK_DEBIAN_PROGRAM_PACKAGE_RECOMMENDS "curl, python3-matplotlib, dataset-fashion-mnist")
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SUGGESTS "slurm-client, libkolo-dev, environment-modules | lmod")
set(CPACK_COMPONENT_PROGRAM_DESCRIPTION "Data-parallel deep-learning training on LibTorch
kolo trains neural networks from one core to a cluster: it starts the ranks,
reads the data, averages gradients, saves checkpoints, and shows and measures
what it does.")

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libkolo-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
# Depends on all that find_package(kolo) needs; its component `trainer` needs what is recommended as well.
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "cmake, g++, ${kolo_mpi_packages}libtorch-dev, libfmt-dev")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_RECOMMENDS
    "libopenblas0-pthread, libdnnl-dev, libyaml-cpp-dev, nlohmann-json3-dev, libboost-dev, libprotobuf-dev, protobuf-compiler, pkg-config, libhdf5-dev, zlib1g-dev, libjpeg-dev, libpng-dev")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SHLIBDEPS ON)  # of libkolo_online.so
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "Data-parallel training for programs on LibTorch - library
Gradients averaged over the ranks while they are computed, for a training loop
of one's own (kolo::parallel), everything that the program kolo is made of
(kolo::kolo), and networks inside of running simulations (kolo::online; in C and
Fortran, too, where kolo is built with MPI): headers, libraries and a CMake
package.")

include(CPack)
