"""A Spack package of a checkout.

Put this file into a repository of packages as `packages/py_malleable_apgas/package.py`; then
`spack dev-build --source-path /path/to/checkout py-malleable-apgas@main` builds it.
"""

from spack.package import depends_on, license, variant, version
from spack_repo.builtin.build_systems.python import PythonPackage


class PyMalleableApgas(PythonPackage):
    """Task-parallel Python jobs that grow and shrink while they run, and the batch scheduler that makes use of it."""

    pypi = "malleable-apgas/malleable_apgas-0.1.0.tar.gz"

    license("Apache-2.0")

    # Nothing is published yet: a checkout is built. A release gets a line with its version and the hash of its sdist.
    version("main")

    variant("kernels", default=True, description="Compiled kernels of the benchmarks")
    variant("report", default=False, description="Pictures and tables of runs")
    variant("web", default=False, description="The live page and metrics of the scheduler")

    depends_on("python@3.11:", type=("build", "run"))
    depends_on("py-hatchling@1.27:", type="build")
    depends_on("mpi", type=("build", "run"))
    depends_on("py-mpi4py@4:", type=("build", "run"))
    depends_on("py-cloudpickle@3:", type=("build", "run"))
    depends_on("py-msgspec@0.19:", type=("build", "run"))
    depends_on("py-mypy-extensions@1:", type=("build", "run"))
    # the extra `bridge`: the command `malleable` is part of the package
    depends_on("py-typer@0.15:0.28", type=("build", "run"))
    depends_on("py-rich@13.7:", type=("build", "run"))
    depends_on("py-platformdirs@4.2:", type=("build", "run"))

    depends_on("py-numpy@1.26:", type=("build", "run"), when="+kernels")
    depends_on("py-numba@0.60:", type=("build", "run"), when="+kernels")
    depends_on("py-matplotlib@3.9:", type=("build", "run"), when="+report")
    depends_on("py-pandas@2.2:", type=("build", "run"), when="+report")
    depends_on("py-pyarrow@17:", type=("build", "run"), when="+report")
    depends_on("py-h11@0.14:", type=("build", "run"), when="+web")
    depends_on("py-prometheus-client@0.21:", type=("build", "run"), when="+web")

    import_modules = ["apgas", "glb", "scheduler_bridge"]
