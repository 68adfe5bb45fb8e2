"""Commands on an emulated cluster that stays up meanwhile."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, Self

from support.hosts import CLUSTER
from support.leftovers import MARK, kill, living, patiently
from support.mpi import BIN, PATIENCE_S, ROOT

_ASK_S = 120.0
_PAUSE_S = 0.05
_CONSOLE = Path(__file__).parent / "programs" / "console.py"


class Console:
    """Four hosts, host1 to host4.

    Args:
        folder: Where jobs write, and where their state folders are.
        options: Further options of the emulated cluster.
    """

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self.patience_s = PATIENCE_S
        self.mark = uuid.uuid4().hex
        self._errors = (folder / "cluster.err").open("w+", encoding="utf-8")
        self._process = subprocess.Popen(
            [sys.executable, str(CLUSTER), *options, "--", sys.executable, str(_CONSOLE)],
            env={
                **os.environ, MARK: self.mark, "PYTHONPATH": str(ROOT), "PATH": f"{BIN}:{os.environ['PATH']}",
                "MALLEABLE_STATE": str(folder / "state"),
            },
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True, start_new_session=True,
        )  # fmt: skip

    def __enter__(self) -> Self:
        self.run("true")
        return self

    def __exit__(self, *_: object) -> None:
        to, from_ = self._pipes()
        to.close()
        try:
            self._process.wait(PATIENCE_S)
            assert not patiently(lambda: living(self.mark)), "processes of the cluster are left"
        finally:
            kill(self.mark)
            self._process.wait()
            from_.close()
            self._errors.close()

    def run(self, *command: str | Path, code: int | None = 0) -> str:
        """Run a command in the cluster, and return what it wrote; fails if it does not return ``code``."""
        answer = self._answer(*command)
        if code is not None and answer["code"] != code:
            raise AssertionError(f"{command}: {answer}\n{self.story()}")
        return str(answer["out"]) + str(answer["err"])

    def story(self) -> str:
        """What there is to say of the cluster, for a failure."""
        return ""

    def until(self, holds: Callable[[], bool], what: str) -> None:
        """Wait until ``holds`` returns True."""
        end = time.monotonic() + self.patience_s
        while not holds():
            if time.monotonic() > end:
                raise AssertionError(f"never {what}\n{self.story()}")
            time.sleep(_PAUSE_S)

    def _answer(self, *command: str | Path) -> dict[str, Any]:
        to, from_ = self._pipes()
        to.write(json.dumps({"command": [str(word) for word in command], "timeout_s": _ASK_S}) + "\n")
        to.flush()
        line = from_.readline()
        if not line:
            self._errors.seek(0)
            raise AssertionError(f"the cluster has ended: {self._errors.read()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _pipes(self) -> tuple[IO[str], IO[str]]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        return self._process.stdin, self._process.stdout
