"""Hosts that are folders' entries: a host answers while the folder has a file of its name."""

from __future__ import annotations

from pathlib import Path

from scheduler_bridge.backends.hosts import Launcher, launcher_of


def answering(folder: Path, *hosts: str) -> Path:
    """Makes the folder of the hosts that answer at first."""
    folder.mkdir()
    for host in hosts:
        (folder / host).touch()
    return folder


def launcher_to(folder: Path) -> Launcher:
    """Runs commands here, for the hosts that answer."""
    return launcher_of(f'sh -c \'cat {folder}/"$0" && exec sh -c "$1"\' {{host}} {{command}}')
