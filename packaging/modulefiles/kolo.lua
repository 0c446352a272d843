-- Lmod's module file of kolo, for an installation anywhere:
--
--   module use PREFIX/share/kolo/modulefiles
--   module load kolo
--
-- It finds the prefix from where it lies itself. Load the MPI and the LibTorch that kolo was built with before it.
local prefix = myFileName():match("^(.*)/share/kolo/modulefiles/")

help([[kolo: data-parallel deep-learning training for C++ on LibTorch and MPI.

kolo --help, kolo doctor; configurations in ]] .. prefix .. [[/share/kolo/configs,
job scripts in ]] .. prefix .. [[/share/kolo/submit.]])
whatis("Name: kolo")
whatis("Version: " .. myModuleVersion())
whatis("Description: data-parallel deep-learning training on LibTorch and MPI")

conflict("kolo")
prepend_path("PATH", pathJoin(prefix, "bin"))
prepend_path("CMAKE_PREFIX_PATH", prefix)
prepend_path("MANPATH", pathJoin(prefix, "share/man"))
setenv("KOLO_ROOT", prefix)
