"""A real job that grows and shrinks for long under traffic, watched from outside.

``PYTHONPATH=tests python -m stress.soak [--cycles N] [--hours H] [--seed N] [--transport tcp|mpi]``.

The job checks that every activity counted exactly once; this command measures all its processes after each cycle,
compares what they use with stated bounds, and looks for what the job leaves behind.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from support import leftovers
from support.mpi import IN_PLACES

SILENT_S: Final = 150.0
"""A job that says nothing for so long hangs."""
ENDS_S: Final = 10.0
"""A job whose program is over ends within so long."""
LAST_WORDS_S: Final = 0.5
"""How long the last words of a job that has ended may be on their way."""
KEPT: Final = 64
"""The most samples that are kept; of more, every second one is dropped."""
FIND: Final = f"import sys; sys.path.insert(0, {str(Path(__file__).parents[1])!r})"
"""Lets a process find this folder; newcomers take over the path of place 0."""
START: Final = f"{FIND}; from stress.soak_program import main; main()"


class SoakFailed(Exception):
    """The soak found something; the text says what."""


def main(arguments: Sequence[str]) -> int:
    """Run a soak; 0: nothing was found, 1: something was, 130: interrupted."""
    parser = argparse.ArgumentParser(prog="python -m stress.soak", description=__doc__)
    parser.add_argument("--cycles", type=int, default=200, help="times to grow and to shrink (default 200)")
    parser.add_argument("--hours", type=float, default=0.0, help="go on for so long, if that is longer")
    parser.add_argument("--transport", choices=("tcp", "mpi"), default="tcp", help="data plane (default tcp)")
    parser.add_argument("--seed", type=int, default=0, help="decides sizes, leavers and traffic (default 0)")
    parser.add_argument("--most", type=int, default=6, help="most places at a time (default 6, at least 4)")
    options = parser.parse_args(arguments)
    if options.cycles < 1 or options.most < 4 or not 0 <= options.hours < 1e6:
        parser.error("--cycles must be at least 1, --most at least 4, and --hours not negative")
    soak = Soak(options)
    began_s = time.monotonic()
    try:
        with _progress(options.cycles, options.hours) as advance:
            soak.run(advance)
    except SoakFailed as failure:
        sys.stdout.write(soak.report(time.monotonic() - began_s))
        sys.stdout.write(f"FAILED: {failure}\nagain: PYTHONPATH=tests python -m stress.soak {' '.join(arguments)}\n")
        return 1
    except KeyboardInterrupt:
        return 130
    sys.stdout.write(soak.report(time.monotonic() - began_s))
    return 0


class Soak:
    """One run."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self.mark = uuid.uuid4().hex
        self._leftovers = leftovers.Leftovers()
        self._last: dict[str, Any] = {}
        self._seconds: dict[str, list[float]] = {"grow": [], "shrink": []}
        self.samples: list[Sample] = []

    def run(self, advance: Callable[[int], None]) -> None:
        """Run the job to its end.

        Raises:
            SoakFailed: It failed, or did not keep to the bounds, or left something behind.
        """
        with tempfile.TemporaryFile() as errors:
            process = self._start(errors)
            try:
                self._watch(process, advance)
                self._end(process, errors)
            except BaseException:
                process.kill()
                leftovers.kill(self.mark)
                raise
            finally:
                process.wait()
        try:
            self._leftovers.check(self.mark)
        except AssertionError as error:
            leftovers.kill(self.mark)
            raise SoakFailed(f"the job left something behind: {error}") from None

    def _start(self, errors: IO[bytes]) -> subprocess.Popen[bytes]:
        options = self._options
        program = {
            "cycles": options.cycles,
            "seconds": options.hours * 3600,
            "seed": options.seed,
            "most": options.most,
        }
        mpiexec = Path(sys.prefix) / "bin" / "mpiexec"
        command = [str(mpiexec) if mpiexec.exists() else "mpiexec", "-n", "2", sys.executable, "-c", START]
        environment = {
            "APGAS_TRANSPORT": options.transport,
            "APGAS_VALIDATE": "validation",
            "PYTHONPATH": os.pathsep.join(filter(None, (str(IN_PLACES), os.environ.get("PYTHONPATH")))),
            leftovers.MARK: self.mark,
        }
        return subprocess.Popen(
            [*command, json.dumps(program)],
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        )

    def _watch(self, process: subprocess.Popen[bytes], advance: Callable[[int], None]) -> None:
        pids: dict[str, Any] = {}
        for line in _lines(process):
            try:
                words = json.loads(line)
            except ValueError:
                continue  # the process manager has its say; the exit code and stderr have the rest
            if "place_0" in words:
                pids = words
            elif "over" in words:
                self._last.update(words)
                return
            else:
                self._last = words
                self._seconds["grow"].append(words["grow_s"])
                self._seconds["shrink"].append(words["shrink_s"])
                self._measure(words, pids)
                advance(words["cycle"])

    def _measure(self, words: dict[str, Any], pids: dict[str, Any]) -> None:
        uses = by_role(leftovers.living(self.mark), pids["place_0"], pids["witness"], sys.executable)
        sample = Sample(words["cycle"], words["spawned"], len(words["members"]), uses)
        self.samples.append(sample)
        if found := list(complaints(self.samples[0], sample)):
            raise SoakFailed(f"after {sample.cycle} cycles and {sample.spawned} newcomers " + "; ".join(found))
        if len(self.samples) > KEPT:
            del self.samples[1:-1:2]

    def _end(self, process: subprocess.Popen[bytes], errors: IO[bytes]) -> None:
        try:
            code = process.wait(ENDS_S)
        except subprocess.TimeoutExpired:
            raise SoakFailed(f"the job is over and has not ended within {ENDS_S:g} s") from None
        said = os.pread(errors.fileno(), 1 << 20, 0).decode(errors="replace")
        if code or "over" not in self._last:
            raise SoakFailed(f"the job ended with code {code}:\n{said}")
        if said:
            raise SoakFailed(f"the job complained:\n{said}")

    def report(self, seconds: float) -> str:
        """What happened, for people."""
        last = self._last
        joined = self.samples[-1].spawned if self.samples else 0
        cycles, waves, activities = (last.get(key, 0) for key in ("cycle", "waves", "activities"))
        heads = f"transport {self._options.transport}, seed {self._options.seed}, {seconds:.0f} s: {cycles} cycles, "
        lines = [heads + f"{joined} places joined, {waves} waves of {activities} activities, each counted once"]
        for kind, times in self._seconds.items():
            if times:
                ordered = sorted(times)
                lines.append(f"{kind:7} median {ordered[len(ordered) // 2]:.3f} s, longest {ordered[-1]:.3f} s")
        if self.samples:
            lines.append(table(self.samples))
        return "\n".join(lines) + "\n"


def _lines(process: subprocess.Popen[bytes]) -> Iterator[bytes]:
    """What the job says, line by line.

    Raises:
        SoakFailed: It is silent for too long.
    """
    lines: queue.Queue[bytes] = queue.Queue()

    def read() -> None:
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                lines.put(line)

    # what the job leaves behind may keep the pipe open: its end is not waited for
    reader = threading.Thread(target=read, name="soak-reader", daemon=True)
    reader.start()
    until_s = time.monotonic() + SILENT_S
    while time.monotonic() < until_s:
        ended = process.poll() is not None
        if ended:
            reader.join(LAST_WORDS_S)
        try:
            yield lines.get(timeout=0.0 if ended else 0.1)
        except queue.Empty:
            if ended:
                return
            continue
        until_s = time.monotonic() + SILENT_S
    raise SoakFailed(f"the job has said nothing for {SILENT_S:g} s")


@contextmanager
def _progress(cycles: int, hours: float) -> Iterator[Callable[[int], None]]:
    """Show how far the soak is: a bar at a terminal that rich can draw on, a line now and then elsewhere."""
    if not sys.stderr.isatty() or importlib.util.find_spec("rich") is None:
        yield lambda cycle: _say_now_and_then(cycle, cycles)
        return
    from rich.console import Console
    from rich.progress import Progress, TimeElapsedColumn

    columns = (*Progress.get_default_columns(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("cycles", total=None if hours else cycles)
        yield lambda cycle: bar.update(task, completed=cycle)


def _say_now_and_then(cycle: int, cycles: int) -> None:
    if cycle % max(1, cycles // 10) == 0:
        sys.stdout.write(f"{cycle} of {cycles} cycles\n")
        sys.stdout.flush()


# What the processes of a job use: memory, file descriptors and threads, by role, and what they may use ----------------

MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Use:
    """What one process uses (``memory_bytes``: resident and its own), or the most of several."""

    memory_bytes: int = 0
    descriptors: int = 0
    threads: int = 0

    def most(self, other: Use) -> Use:
        """The larger of each."""
        return Use(
            max(self.memory_bytes, other.memory_bytes),
            max(self.descriptors, other.descriptors),
            max(self.threads, other.threads),
        )


@dataclass(frozen=True, slots=True)
class Sample:
    """The processes of a job at one moment, by role; ``spawned``: places that had joined by then."""

    cycle: int
    spawned: int
    places: int
    by_role: dict[str, Use]


def use_of(pid: int) -> Use | None:
    """Measure a process; None if it is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
        descriptors = sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return None
    words = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    if "RssAnon" not in words:
        return None  # a zombie
    return Use(int(words["RssAnon"].split()[0]) * 1024, descriptors, int(words["Threads"]))


def by_role(processes: dict[int, str], place_0: int, witness: int, interpreter: str) -> dict[str, Use]:
    """Measure all processes of a job (pid: command line); of several with one role the most of each."""
    uses: dict[str, Use] = {}
    for pid, command in processes.items():
        use = use_of(pid)
        if use is None:
            continue
        role = {place_0: "place 0", witness: "place 1"}.get(pid)
        role = role or ("other places" if command.startswith(interpreter) else "process manager")
        uses[role] = uses.get(role, Use()).most(use)
    return uses


@dataclass(frozen=True, slots=True)
class Bound:
    """How much more than at the start a process may use: at once, and per place that has joined since."""

    memory_bytes: int
    memory_per_place_bytes: int
    descriptors: int
    descriptors_per_place: float


BOUNDS: Final = {
    "place 0": Bound(64 * MIB, MIB // 16, 32, 0.0),
    "place 1": Bound(64 * MIB, 0, 32, 0.0),
    "other places": Bound(64 * MIB, 0, 32, 0.0),
    "process manager": Bound(4 * MIB, MIB // 128, 16, 1.25),
}
"""Connections, activities under way and what malloc keeps of them in the arenas of many threads explain the fixed part;
MPI keeps something of each place that it ever spawned."""


def complaints(first: Sample, now: Sample) -> Iterable[str]:
    """Return where a sample exceeds the bounds, counted from the first."""
    joined = now.spawned - first.spawned
    for role, bound in BOUNDS.items():
        before, use = first.by_role.get(role), now.by_role.get(role)
        if before is None or use is None:
            continue
        memory_bytes = before.memory_bytes + bound.memory_bytes + bound.memory_per_place_bytes * joined
        descriptors = before.descriptors + bound.descriptors + bound.descriptors_per_place * joined
        if use.memory_bytes > memory_bytes:
            yield f"{role} uses {use.memory_bytes / MIB:.1f} MiB, at most {memory_bytes / MIB:.1f} are allowed"
        if use.descriptors > descriptors:
            yield f"{role} has {use.descriptors} file descriptors open, at most {descriptors:.0f} are allowed"


def table(samples: list[Sample]) -> str:
    """The first, the middle and the last sample for people."""
    first, last = samples[0], samples[-1]
    middle = min(samples, key=lambda sample: abs(2 * sample.cycle - first.cycle - last.cycle))
    lines = [f"{'':16} {'start':>25} {'middle':>25} {'end':>25}"]
    heads = [f"cycle {sample.cycle}, {sample.spawned} joined" for sample in (first, middle, last)]
    lines.append(f"{'':16} " + " ".join(f"{head:>25}" for head in heads))
    for role in BOUNDS:
        uses = [sample.by_role.get(role) for sample in (first, middle, last)]
        cells = [f"{u.memory_bytes / MIB:.1f} MiB, {u.descriptors} fds, {u.threads} th" if u else "-" for u in uses]
        lines.append(f"{role:16} " + " ".join(f"{cell:>25}" for cell in cells))
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
