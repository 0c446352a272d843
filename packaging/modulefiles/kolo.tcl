#%Module
# The module file of kolo for environment-modules, for an installation anywhere:
#
#   module use PREFIX/share/kolo/modulefiles
#   module load kolo
#
# It finds the prefix from where it lies itself. Load the MPI and the LibTorch that kolo was built with before it.
set prefix [file normalize [file join [file dirname $ModulesCurrentModulefile] .. .. .. ..]]

proc ModulesHelp {} {
  global prefix
  puts stderr "kolo: data-parallel deep-learning training for C++ on LibTorch and MPI.

kolo --help, kolo doctor; configurations in $prefix/share/kolo/configs,
job scripts in $prefix/share/kolo/submit."
}
module-whatis "data-parallel deep-learning training on LibTorch and MPI"

conflict kolo
prepend-path PATH $prefix/bin
prepend-path CMAKE_PREFIX_PATH $prefix
prepend-path MANPATH $prefix/share/man
setenv KOLO_ROOT $prefix
