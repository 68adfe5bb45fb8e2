"""The kernels on CPUs that this one is not: older ones run the same code, others have the code emitted for them."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.pi import reference

pytest.importorskip("numba", reason="numba is not installed")

COUNT = """
from benchmarks.nqueens import kernel as queens
from benchmarks.pi.bag import count_span
from benchmarks.uts import kernel as uts, problems
from benchmarks.uts.tree import Tree
print(uts.NAME, queens.NAME, sep="; ")
print(problems.run_kernel(Tree(8)), queens.run_kernel(10), count_span(0, 1_000_000, 1))
"""
COUNTS = "257042 724 785428"

CENTRALITY = """
import hashlib
from benchmarks.bc.bag import Solver
from benchmarks.bc.graph import rmat
solver = Solver(rmat(6, 1), compiled=True)
totals = solver.zeros()
solver.accumulate(0, 64, totals)
print(hashlib.sha1(totals.tobytes()).hexdigest())
"""

POINTS = """
import numpy as np
from benchmarks.pi.kernel import count_hits
print(count_hits(3, 200, np.uint64(5)))
"""

EMIT = """
from llvmlite import binding, ir
binding.initialize_all_targets()
binding.initialize_all_asmprinters()
from benchmarks import simd
from benchmarks.nqueens import vector as queens
from benchmarks.uts import vector as uts

def emit(intrinsic, *kinds):
    signature, generate = intrinsic._defn(None, *kinds)
    module = ir.Module("kernel")
    module.triple = "aarch64-unknown-linux-gnu"
    word = {"uintp": ir.IntType(64), "uint64": ir.IntType(64), "uint32": ir.IntType(32)}
    arguments = [word[str(kind)] for kind in signature.args]
    returns = ir.IntType(64) if str(signature.return_type) == "int64" else ir.VoidType()
    function = ir.Function(module, ir.FunctionType(returns, arguments), "kernel")
    builder = ir.IRBuilder(function.append_basic_block())
    class Context:
        def get_dummy_value(self):
            return None
    value = generate(Context(), builder, signature, list(function.args))
    builder.ret_void() if value is None else builder.ret(value)
    target = binding.Target.from_triple(module.triple)
    machine = target.create_target_machine(cpu="neoverse-n1", opt=2)
    parsed = binding.parse_assembly(str(module))
    parsed.verify()
    assembly = machine.emit_assembly(parsed)
    lines = [line.split()[0] for line in assembly.splitlines() if line.startswith("\\t") and ".4s" in line]
    called = sorted({line.split()[1] for line in assembly.splitlines() if line.startswith("\\tbl\\t")})
    print(len(lines) > 20, called)

emit(uts._hash, None, None)
emit(queens._advance, None, None, None, None, None)
emit(queens._finish, None, None, None, None)
"""


@pytest.fixture(scope="module")
def centrality() -> str:
    from benchmarks.bc.bag import Solver
    from benchmarks.bc.graph import rmat

    solver = Solver(rmat(6, 1), compiled=False)
    totals = solver.zeros()
    solver.accumulate(0, 64, totals)
    return hashlib.sha1(totals.tobytes()).hexdigest()


def run(code: str, **environment: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    "cpu",
    [
        "generic",
        pytest.param("x86-64-v3", marks=pytest.mark.slow),
        pytest.param("x86-64-v2", marks=pytest.mark.slow),
    ],
)
def test_older_cpus_count_the_same(cpu: str, tmp_path: Path) -> None:
    names, counts = run(COUNT, NUMBA_CPU_NAME=cpu, NUMBA_CPU_FEATURES="", NUMBA_CACHE_DIR=str(tmp_path))
    assert names == "numba, 16 lanes; numba, 16 lanes"
    assert counts == COUNTS


@pytest.mark.slow
@pytest.mark.parametrize("cpu", ["generic", "x86-64-v3"])
def test_older_cpus_give_the_same_centrality(cpu: str, centrality: str, tmp_path: Path) -> None:
    target = {"NUMBA_CPU_NAME": cpu, "NUMBA_CPU_FEATURES": "", "NUMBA_CACHE_DIR": str(tmp_path)}
    assert run(CENTRALITY, **target) == [centrality]


def test_without_compilation_the_plain_kernels_count_the_same() -> None:
    names, counts = run(COUNT, NUMBA_DISABLE_JIT="1")
    assert names == "NumPy, no numba; plain Python, no numba"
    assert counts == COUNTS


def test_kernels_in_plain_numba_run_as_python_too(centrality: str) -> None:
    assert run(POINTS + CENTRALITY, NUMBA_DISABLE_JIT="1") == [str(reference.count_hits(3, 200, 5)), centrality]


def test_the_vectors_lower_to_registers_of_arm() -> None:
    from llvmlite import binding

    try:
        binding.initialize_all_targets()
        binding.Target.from_triple("aarch64-unknown-linux-gnu")
    except RuntimeError:
        pytest.skip("this llvmlite cannot emit code for ARM")
    assert run(EMIT) == ["True []"] * 3
