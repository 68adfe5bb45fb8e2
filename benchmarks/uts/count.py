"""Count a large tree in pieces, on one core: ``python -m benchmarks.uts.count --depth 20 --checkpoint uts20.json``.

The count can be interrupted at any time and goes on where the checkpoint is, which is exact: a checkpoint holds the
nodes counted and the nodes pending at one moment.
"""

from __future__ import annotations

import signal
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from apgas.errors import extras_named

with extras_named():
    import typer

    from ..harness import measuring
    from ..harness.errors import BadUsage, show_error
    from ..harness.progress import Meter, scaled
    from . import checkpoint
    from .checkpoint import CheckpointError, Count
    from .command import Branching, Depth, Seed, tree_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from .samples import AnyTree

_PROGRAM: Final = f"python -m {__package__}.count"
PIECE_NODES: Final = 100_000_000
"""Nodes between two looks at the clock: some tenths of a second."""


def advance(
    tree: AnyTree,
    count: Count,
    path: Path,
    *,
    stopped: Callable[[], bool],
    show: Callable[[Count], None],
    every_s: float = 10.0,
    piece: int = PIECE_NODES,
) -> bool:
    """Count on until nothing is left or ``stopped``; save now and then and at the end.

    Returns:
        Whether the tree is counted.

    Raises:
        OSError: The checkpoint cannot be written.
    """
    count.runs += not count.bag.is_empty()
    saved_s, more = time.monotonic(), not count.bag.is_empty()
    while more and not stopped():
        began_s = time.process_time()
        more = count.bag.process(piece)
        count.seconds += time.process_time() - began_s
        show(count)
        if time.monotonic() - saved_s >= every_s:
            checkpoint.save(path, tree, count)
            saved_s = time.monotonic()
    checkpoint.save(path, tree, count)
    return not more


def main(arguments: list[str]) -> int:
    """Count what ``arguments`` ask for.

    Returns:
        The exit code: 0 counted, 1 the count differs from the recorded one or the file cannot be written, 2 bad usage,
        128 + N stopped by signal N, with everything saved.
    """
    return measuring.main(_PROGRAM, _command, arguments)


def _command(
    checkpoint: Annotated[Path, typer.Option(help="The file that holds the state; made if it is not there.")],
    depth: Depth = None,
    seed: Seed = None,
    branching: Branching = None,
    sample: Annotated[str | None, typer.Option(help="A published tree instead, as for benchmarks.uts.")] = None,
    every: Annotated[float, typer.Option(help="Seconds between two checkpoints.")] = 10.0,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> measuring.Run:
    """Count a large tree on one core, in as many runs as you like.

    Example: python -m benchmarks.uts.count --depth 18 --checkpoint uts18.json
    """
    if not every > 0:
        raise BadUsage(f"--every {every:g}", "the time between checkpoints must be positive", "give --every 10")
    return partial(_run, tree_of(depth, seed, branching, sample), checkpoint, every, quiet)


def _run(tree: AnyTree, path: Path, every_s: float, quiet: bool) -> int:
    count = _open(tree, path)
    received: list[int] = []
    signals = {
        number: signal.signal(number, lambda signum, _: received.append(signum))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    label = f"UTS, {checkpoint.spoken(checkpoint.described(tree))}"
    with Meter(quiet) as meter:

        def show(count: Count) -> None:
            meter.show(lambda: progress_line(label, count))

        try:
            done = advance(tree, count, path, stopped=lambda: bool(received), show=show, every_s=every_s)
        except OSError as error:
            show_error(f"--checkpoint {path}", f"cannot write it: {error.strerror}", "make room, and start it again")
            return 1
        finally:
            for number, handler in signals.items():
                signal.signal(number, handler)
    if not done:
        sys.stdout.write(f"{label}: stopped at {count.bag.count:,} nodes; the same command goes on\n")
        return 128 + received[0]
    return _report(tree, label, count)


def _open(tree: AnyTree, path: Path) -> Count:
    """Return where to go on.

    Raises:
        BadUsage: The file cannot be used.
    """
    remedy = "give another --checkpoint, or remove the file to begin anew"
    try:
        if path.exists():
            return checkpoint.load(path, tree)
        count = checkpoint.begin(tree)
        checkpoint.save(path, tree, count)  # so that a file that cannot be written shows at once
    except CheckpointError as error:
        raise BadUsage(f"--checkpoint {path}", str(error), remedy) from None
    except OSError as error:
        raise BadUsage(f"--checkpoint {path}", f"cannot use it: {error.strerror}", remedy) from None
    return count


def progress_line(label: str, count: Count) -> str:
    """Write how far the count is; the share is an estimate from the mean size of what is pending."""
    nodes, left = count.bag.count, count.bag.expected_left()
    rate = nodes / count.seconds if count.seconds else 0.0
    parts = [label, f"{scaled(nodes)} nodes", f"{scaled(rate)} nodes per CPU-second"]
    if rate and left < nodes * 1e6:
        parts.append(f"about {100 * nodes / (nodes + left):.1f} %, {spoken_time(left / rate)} left")
    return " · ".join(parts)


def spoken_time(seconds: float) -> str:
    """Write a duration for people."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60:02d} min"


def _report(tree: AnyTree, label: str, count: Count) -> int:
    nodes, known = count.bag.count, tree.known_nodes()
    verdict = "no count is recorded" if known is None else "as recorded" if nodes == known else f"RECORDED: {known:,}"
    runs = "1 run" if count.runs == 1 else f"{count.runs} runs"
    sys.stdout.write(f"{label}: {nodes:,} nodes ({verdict}); {count.seconds:.1f} CPU-seconds in {runs}\n")
    return 0 if known is None or nodes == known else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
