"""The recipes for conda, Spack and containers are well-formed, and say the same as pyproject.toml."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from support import PATIENCE_S, ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
NEEDED = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["bridge"]]
"""What both packages need, for the command `malleable` is part of them."""


def name_of(requirement: str) -> str:
    """The name of a package, as all of these write it after `py-` and the like are taken away."""
    found = re.match(r"[\w-]+", requirement)
    assert found
    return found[0].replace("_", "-").removeprefix("py-")


def bounds(requirement: str) -> str:
    return requirement.replace(" ", "").partition(">=")[2]


def test_the_version_is_that_of_the_project() -> None:
    cited = re.search(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)
    conda = re.search(r'^  version: "(.*)"$', (ROOT / "recipe/recipe.yaml").read_text(encoding="utf-8"), re.MULTILINE)
    assert cited
    assert conda
    assert cited[1] == conda[1] == PROJECT["version"]


def test_conda_needs_what_the_project_needs() -> None:
    rattler_build: Any = pytest.importorskip("rattler_build")
    recipe = rattler_build.Stage0Recipe.from_file(str(ROOT / "recipe" / "recipe.yaml"))
    (rendered,) = recipe.render(rattler_build.VariantConfig())
    package, requirements = rendered.recipe.package, rendered.recipe.requirements
    assert (str(package.name), str(package.version)) == (PROJECT["name"], PROJECT["version"])
    run = {name_of(str(each)): bounds(str(each)) for each in requirements.run}
    assert run["python"] == PROJECT["requires-python"].removeprefix(">=")
    assert {name_of(each): bounds(each) for each in NEEDED}.items() <= run.items()


def test_spack_needs_what_the_project_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    found: dict[str, str] = {}
    variants: set[str] = set()
    spack = {name: ModuleType(name) for name in ("spack", "spack.package", "spack_repo.builtin.build_systems.python")}
    package: Any = spack["spack.package"]
    package.license = package.version = lambda *_: None
    package.variant = lambda name, **_: variants.add(name)

    def depends_on(what: str, when: str = "+none", **_kinds: object) -> None:
        name, _, versions = what.partition("@")
        found[name_of(name)] = versions
        assert when == "+none" or when.removeprefix("+") in variants

    package.depends_on = depends_on
    spack["spack_repo.builtin.build_systems.python"].PythonPackage = object  # type: ignore[attr-defined]
    for name, module in spack.items():
        monkeypatch.setitem(sys.modules, name, module)
    assert "PyMalleableApgas" in runpy.run_path(str(ROOT / "recipe" / "spack" / "package.py"))
    wanted = [f"python{PROJECT['requires-python']}", *NEEDED, *PROJECT["optional-dependencies"]["web"]]
    for requirement in wanted:
        least = bounds(requirement).partition(",")[0]
        assert found[name_of(requirement)].partition(":")[0] == least.removesuffix(".0"), requirement


def test_the_container_is_linted() -> None:
    hadolint = Path(sysconfig.get_path("scripts")) / "hadolint"
    if not hadolint.exists():
        pytest.skip("hadolint is not installed")
    done = subprocess.run(
        [str(hadolint), str(ROOT / "Containerfile")], capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_the_container_copies_what_the_wheel_is_built_of() -> None:
    lines = (ROOT / ".containerignore").read_text(encoding="utf-8").splitlines()
    kept = {line.removeprefix("!") for line in lines if line.startswith("!")}
    wheel = {"apgas", "glb", "benchmarks", "scheduler_bridge", "hatch_build.py", "pyproject.toml"}
    assert kept == wheel | {PROJECT["readme"], *PROJECT["license-files"]}
