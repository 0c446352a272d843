# A recipe for Spack (https://spack.io), for clusters without Debian:
#
#   spack repo add packaging/spack
#   spack dev-build kolo@0.1.0 chart_js=/path/to/chart.min.js      in a clone of kolo
#
# With +cuda cuda_arch=80,90 for GPUs, of these compute capabilities (never built so yet). LibTorch is that of py-torch. Chart.js, which reports are drawn with, is not in Spack: take chart.min.js of its version 3.

from spack.package import *


class Kolo(CMakePackage, CudaPackage):
    """Data-parallel deep-learning training for C++20 on LibTorch and MPI: a library that averages gradients while they
    are computed, and a program that trains, measures and reports from one core to a cluster."""

    license("Apache-2.0")

    version("0.1.0")

    variant("trainer", default=True, description="The kolo program and the rooms that only it needs")
    variant("chart_js", default="none", values=str, description="The file chart.min.js, for reports", when="+trainer")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("ninja", type="build")
    depends_on("mpi@3:")
    depends_on("fmt@9:")
    depends_on("py-torch@1.13:+distributed")
    depends_on("python", type=("build", "run"))

    with when("+cuda"):
        depends_on("cuda@12:")
        depends_on("nccl")
        depends_on("py-torch+cuda+nccl")
        conflicts("cuda_arch=none", msg="name the GPUs to compile for: cuda_arch=80 for the A100, 90 for the H100")
        for arch in CudaPackage.cuda_arch_values:
            depends_on(f"py-torch cuda_arch={arch}", when=f"cuda_arch={arch}")

    with when("+trainer"):
        depends_on("pkgconfig", type="build")
        depends_on("blas", type=("link", "run"))
        depends_on("onednn@2.6:")
        depends_on("cli11@2.2:")
        depends_on("yaml-cpp@0.7:")
        depends_on("nlohmann-json@3.11:")
        depends_on("boost@1.74:")
        depends_on("protobuf@3.21:")
        depends_on("hdf5@1.10:~mpi")
        depends_on("zlib-api")
        depends_on("jpeg")
        depends_on("libpng")
        depends_on("curl", type="run")

    generator("ninja")

    # GCC 12 is the oldest that is tested.
    conflicts("%gcc@:11", msg="kolo is written in C++20")

    def cmake_args(self):
        arguments = [
            self.define_from_variant("KOLO_BUILD_TRAINER", "trainer"),
            self.define("KOLO_BUILD_TESTS", self.run_tests),
            self.define("KOLO_BUILD_BENCHMARKS", False),
            self.define_from_variant("KOLO_CUDA", "cuda"),
            self.define("CMAKE_PREFIX_PATH", self.spec["py-torch"].package.cmake_prefix_paths),
        ]
        if self.spec.satisfies("+cuda"):
            capabilities = [f"{arch[:-1]}.{arch[-1]}" for arch in self.spec.variants["cuda_arch"].value]
            arguments.append(self.define("TORCH_CUDA_ARCH_LIST", " ".join(capabilities)))
        if self.spec.satisfies("+trainer") and not self.spec.satisfies("chart_js=none"):
            arguments.append(self.define_from_variant("CHART_JS", "chart_js"))
        return arguments

    def setup_run_environment(self, env):
        env.set("KOLO_ROOT", self.prefix)
