#!/usr/bin/env python3
"""Writes C sources of stand-ins for NVIDIA's libraries: of each function that a LibTorch with CUDA wants of them.

    make_stubs.py FOLDER OUT    FOLDER: LibTorch's lib. OUT gets, for each library LIBRARY (libcublas.so.13, ...), LIBRARY.c,
                                and LIBRARY.map with the versions of its symbols

The functions are weak: those that fake CUDA defines come first. The names of the libraries are printed.
"""
import collections
import pathlib
import re
import subprocess
import sys

users = ["libc10_cuda.so", "libtorch_cuda.so", "libtorch_cuda_linalg.so", "libtorch_nvshmem.so", "libcaffe2_nvrtc.so"]
theirs = re.compile(r"^lib(cu|nccl|nvrtc|nvshmem)")
functions = re.compile(r"^(_{0,2}cu|nccl|nvrtc|nvshmem|nvJit|_{0,2}nv)[A-Za-z0-9_]*$")


def output(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def library_of(name, version, needed):
    """The library among `needed` that has a function: by the version of its symbol, otherwise by its name."""
    stems = {library: library.split(".so")[0].removeprefix("lib").split("_")[0].lower() for library in needed}
    if version:
        return next(library for library in needed if version.lower() in (library.lower(), stems[library]))
    fitting = [library for library in needed if name.lower().startswith(stems[library])]
    return max(fitting, key=lambda library: len(stems[library]), default=needed[0])


def main():
    folder, out = map(pathlib.Path, sys.argv[1:])
    out.mkdir(parents=True, exist_ok=True)
    symbols = collections.defaultdict(dict)  # of each library, by name: the version or None
    for user in (folder / each for each in users if (folder / each).exists()):
        needed = [each for each in re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-d", user)) if theirs.match(each)]
        for library in needed:
            symbols[library]
        for line in output("nm", "-D", "--undefined-only", "--with-symbol-versions", user).splitlines():
            name, _, version = line.split()[-1].partition("@")
            if not functions.match(name):
                continue
            version = version.strip("@") or None
            library = library_of(name, version, needed)
            symbols[library][name] = version
    for library, names in sorted(symbols.items()):
        code = ["int fake_cuda_without_stand_in(const char*);"]
        code += [f'__attribute__((weak)) int {name}(void) {{ return fake_cuda_without_stand_in("{name}"); }}' for name in sorted(names)]
        (out / f"{library}.c").write_text("\n".join(code) + "\n")
        versions = sorted({version for version in names.values() if version})
        (out / f"{library}.map").write_text("".join(f"{version} {{ *; }};\n" for version in versions[:1]))
    print(";".join(sorted(symbols)), end="")


if __name__ == "__main__":
    main()
