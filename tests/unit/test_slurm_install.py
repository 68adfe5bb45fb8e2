"""Where Slurm's packages come from, and why they do not, with an apt-get that stands in for the real one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import ROOT

APT = """#!/bin/sh
case "$*" in
  indextargets*) cat "$0.targets" ;;
  *update*)
    cat "$(dirname "$0")"/cache/malleable/slurm-*/apt/sources.list > "$0.sources"
    echo "E: no way there" >&2
    exit 100 ;;
esac
"""


def install(folder: Path, targets: str | None, **variables: str) -> str:
    """Tries to install; returns what was said."""
    if targets is not None:
        (folder / "apt-get").write_text(APT, encoding="utf-8")
        (folder / "apt-get.targets").write_text(targets, encoding="utf-8")
        (folder / "dpkg-deb").write_text("#!/bin/sh\n", encoding="utf-8")
        for name in ("apt-get", "dpkg-deb"):
            (folder / name).chmod(0o755)
    path = str(folder) if targets is None else f"{folder}:{os.environ['PATH']}"
    done = subprocess.run(
        [sys.executable, str(ROOT / "launch" / "emulated-cluster"), "--install-slurm"],
        env={"PATH": path, "MALLEABLE_CACHE": str(folder / "cache"), **variables}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 125
    return done.stderr.splitlines()[-1]


def test_the_mirror_is_that_of_the_machine(tmp_path: Path) -> None:
    targets = "http://a/security bookworm-security main\nhttp://b/other stable contrib\nhttp://c/mirror bookworm main\n"
    said = install(tmp_path, targets)
    assert said == "emulated-cluster: the packages of Debian trixie cannot be listed: E: no way there"
    assert (tmp_path / "apt-get.sources").read_text(encoding="utf-8").endswith("http://c/mirror trixie main\n")
    newer = install(tmp_path, targets, MALLEABLE_SLURM_RELEASE="forky")
    assert newer == "emulated-cluster: the packages of Debian forky cannot be listed: E: no way there"


@pytest.mark.parametrize(
    ("targets", "why"),
    [
        (None, "Slurm is unpacked from Debian's packages, and there is no apt-get on this machine"),
        ("http://a/ubuntu noble main\n", "this machine's apt configuration has no release of Debian (bookworm, "),
    ],
)
def test_why_it_cannot_be_installed(tmp_path: Path, targets: str | None, why: str) -> None:
    assert why in install(tmp_path, targets)
