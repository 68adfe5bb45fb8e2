"""Where a result comes from: the processor, versions, the commit.

Every place of a benchmark loads this, and one of them asks: what takes long to load is loaded then.
"""

from __future__ import annotations

from pathlib import Path


def cpu_model() -> str:
    """Return the processor's name."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass  # no such file on other systems
    import platform

    return platform.processor() or platform.machine()


def version(package: str) -> str | None:
    """Return the version of an installed package; None: it is not installed."""
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def commit(folder: Path) -> str | None:
    """Return the commit checked out in the repository around ``folder``; None outside of one.

    The files of git are read: a program under MPI should not fork.
    """
    for parent in (folder, *folder.parents):
        git = parent / ".git"
        try:
            if git.is_file():  # a worktree: the file names its folder
                git = parent / git.read_text(encoding="utf-8").partition("gitdir:")[2].strip()
            if git.is_dir():
                return _head(git)
        except OSError:
            return None
    return None


def unchanged(folder: Path) -> bool | None:
    """Return whether the tracked files around ``folder`` are those of the commit, ``docs`` aside, which code may write.

    Not for a program under MPI: git is started.

    Returns:
        None: There is no git, or no repository.
    """
    import subprocess

    command = ["git", "-C", str(folder), "status", "--porcelain", "--untracked-files=no"]
    command += ["--", ":/", ":(exclude,top)docs"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return None if done.returncode else not done.stdout


def _head(git: Path) -> str | None:
    head = (git / "HEAD").read_text(encoding="utf-8").strip()
    reference = head.removeprefix("ref: ")
    if reference == head:
        return head
    common = git / "commondir"
    shared = git / common.read_text(encoding="utf-8").strip() if common.exists() else git
    loose = shared / reference
    if loose.exists():
        return loose.read_text(encoding="utf-8").strip()
    packed = shared / "packed-refs"
    lines = packed.read_text(encoding="utf-8").splitlines() if packed.exists() else []
    return next((line.split()[0] for line in lines if line.endswith(f" {reference}")), None)
