"""Reads what Slurm's commands say: ``scontrol``, ``squeue``, ``sinfo`` and ``salloc``.

It is text, whose form is the same in all versions, other than that of their JSON; times are in UTC. Pure functions,
which raise ``ReadingError`` at what they do not understand; what they are tested with was recorded from real ones.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from scheduler_bridge.daemon.config import HintedError

_FIELD = re.compile(r"(?:^|\s)([A-Za-z/:]+)=((?<=JobName=).*|(?<=Comment=).*|(?:(?!\s[A-Za-z/:]+=).)*)")
"""A user's own words may hold what looks like a field; they are the last ones of their lines."""
_SUBMITTED = re.compile(r"^(\d+)(?:;|$)", re.MULTILINE)
_GRANTED = re.compile(r"(?:Granted|Pending) job allocation (\d+)")
_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")
_FLAGS: Final = "*~#!%$@^-+"
"""What ``sinfo`` adds to states; a ``*`` says that the node does not answer."""
_NOT_SAID: Final = frozenset({"(null)", "N/A", "Unknown", "None", ""})


class SlurmError(HintedError):
    """Slurm did not do what was asked; the text says what and why, ``hint`` what to do."""


class ReadingError(SlurmError):
    """Slurm said something that is not understood."""


@dataclass(frozen=True, slots=True)
class JobInfo:
    """A job of Slurm's.

    Attributes:
        job: Its number.
        state: RUNNING, PENDING, COMPLETED, ...
        nodes: Those it holds.
        batch_host: Where its script runs; empty: nowhere.
        partition: Where it was submitted to.
        account: What pays; empty: none.
        qos: Its quality of service; empty: none.
        comment: What its user says of it; empty: nothing.
        starts_s: When it has begun, in seconds since 1970; None: not yet.
        ends_s: When its time is over, or it has ended; None: never.
        reason: Why it waits or has ended; empty: there is none.
        user: Whose it is.
        name: What it is called.
        constraint: The features that each of its nodes must have, as ``sbatch --constraint`` takes them; empty: any.
        gres: What each of its nodes has of generic resources, as ``sbatch --gres`` takes it; empty: nothing.
        reservation: The reservation of Slurm's that it runs in; empty: none.
        may_come_back: Whether Slurm may requeue it.
    """

    job: int
    state: str
    nodes: tuple[str, ...]
    batch_host: str = ""
    partition: str = ""
    account: str = ""
    qos: str = ""
    comment: str = ""
    starts_s: float | None = None
    ends_s: float | None = None
    reason: str = ""
    user: str = ""
    name: str = ""
    constraint: str = ""
    gres: str = ""
    reservation: str = ""
    may_come_back: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a job: ``step`` is a number or ``batch``, ``extern``, ``interactive``."""

    job: int
    step: str
    nodes: tuple[str, ...]
    name: str = ""


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """A node of Slurm's.

    Attributes:
        node: Its name.
        state: idle, allocated, draining, down, ...
        answers: Whether Slurm's daemon there does.
        reason: Why an administrator or Slurm took it out of service; empty: it is in service.
    """

    node: str
    state: str
    answers: bool = True
    reason: str = ""


def read_job(text: str) -> JobInfo:
    """Read ``scontrol show job N``, of which the first record counts."""
    record = text.strip().partition("\n\n")[0]
    said = {name: value.strip() for line in record.splitlines() for name, value in _FIELD.findall(line)}
    plain = {name: _said(value) for name, value in said.items()}
    try:
        return JobInfo(
            job=int(said["JobId"]),
            state=said["JobState"],
            nodes=expand_hosts(said.get("NodeList", "")),
            batch_host=plain.get("BatchHost", ""),
            partition=plain.get("Partition", ""),
            account=plain.get("Account", ""),
            qos=plain.get("QOS", ""),
            comment=plain.get("Comment", ""),
            starts_s=_date(said.get("StartTime", "")),
            ends_s=_date(said.get("EndTime", "")),
            reason=plain.get("Reason", ""),
            user=plain.get("UserId", "").partition("(")[0],  # its number follows there
            name=plain.get("JobName", ""),
            constraint=_constraint(plain.get("Features", "")),
            gres=_gres(plain.get("TresPerNode", "")),
            reservation=plain.get("Reservation", ""),
            may_come_back=said.get("Requeue") == "1",
        )
    except (KeyError, ValueError) as error:
        raise ReadingError(f"scontrol show job is not understood: {error!r}") from error


def _constraint(text: str) -> str:
    """What each node must have; one that counts nodes (``rack1*2``) says that of all together."""
    return "" if "*" in text else text


def _gres(text: str) -> str:
    """``gres/gpu:a100:2,gres/fast`` without the kind of the resource; 22.05 writes ``gres:gpu:a100:2``."""
    parts = (part.strip() for part in text.split(","))
    return ",".join(part[5:] for part in parts if part.startswith(("gres/", "gres:")))


def _said(text: str) -> str:
    return "" if text in _NOT_SAID else text


def _date(text: str) -> float | None:
    return None if text in _NOT_SAID else dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC).timestamp()


def read_steps(text: str) -> tuple[Step, ...]:
    """Read ``squeue --steps -h -o "%i|%N|%j"``."""
    found = []
    for line in filter(None, map(str.strip, text.splitlines())):
        try:
            number, rest = line.split("|", 1)
            job, step = number.split(".", 1)
            nodes, _, name = rest.partition("|")
            found.append(Step(int(job), step, expand_hosts(nodes), name))
        except ValueError as error:
            raise ReadingError(f"a line of squeue --steps is not understood: {line!r}") from error
    return tuple(found)


def read_jobs(text: str) -> tuple[JobInfo, ...]:
    """Read ``squeue -h -o "%i|%T|%N|%S|%r"``."""
    found = []
    for line in filter(None, map(str.strip, text.splitlines())):
        try:
            job, state, nodes, start, reason = line.split("|")
            began = _date(start) if state != "PENDING" else None
            found.append(JobInfo(int(job), state, expand_hosts(nodes), starts_s=began, reason=_said(reason)))
        except ValueError as error:
            raise ReadingError(f"a line of squeue is not understood: {line!r}") from error
    return tuple(found)


def read_nodes(text: str) -> tuple[NodeInfo, ...]:
    """Read ``sinfo -h -N -o "%N|%T|%E"``; one of several partitions is named several times there."""
    found = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        name, _, rest = line.partition("|")
        state, bar, reason = rest.partition("|")
        if not (name and state and bar):
            raise ReadingError(f"a line of sinfo is not understood: {line!r}")
        plain = state.rstrip(_FLAGS)
        found[name] = NodeInfo(name, plain, "*" not in state[len(plain) :], "" if reason == "none" else _said(reason))
    return tuple(found.values())


def read_minutes(text: str) -> int | None:
    """Read ``sinfo -h -o %l``: ``30:00``, ``12:00:00``, ``1-00:00:00``; None: any time, or nothing is said."""
    first = next(iter(text.split()), "infinite")
    if first in ("infinite", "n/a"):
        return None
    days, _, clock = first.rpartition("-")
    try:
        parts = [int(part) for part in clock.split(":")]
        hours, minutes, _seconds = [0] * (3 - len(parts)) + parts
        return max(1, (int(days or 0) * 24 + hours) * 60 + minutes)
    except ValueError as error:
        raise ReadingError(f"{first!r} is no time limit") from error


def read_allocation(text: str) -> int | None:
    """Return the number of the job that ``salloc`` speaks of, granted or pending; None: of none."""
    found = _GRANTED.search(text)
    return int(found[1]) if found else None


def read_submission(text: str) -> int | None:
    """Return the number of the job that ``sbatch --parsable`` has submitted; None: none."""
    found = _SUBMITTED.search(text)
    return int(found[1]) if found else None


def read_configuration(text: str) -> dict[str, str]:
    """Read ``scontrol show config``: names and values."""
    pairs = (line.partition("=") for line in text.splitlines())
    return {name.strip(): value.strip() for name, equals, value in pairs if equals}


def read_version(text: str) -> tuple[int, int, int]:
    """Read a version of Slurm: ``slurm-wlm 24.11.5``.

    Raises:
        ReadingError: There is none.
    """
    found = _VERSION.search(text)
    if found is None:
        raise ReadingError(f"{text.strip()!r} names no version of Slurm")
    return int(found[1]), int(found[2]), int(found[3] or 0)


def complaint(text: str) -> str:
    """Return why a command failed, in one line, without the name of the command that every line begins with.

    The name of a limit stands in a line of its own before the last one: ``sbatch: error: QOSMaxSubmitJobPerUserLimit``.
    """
    lines = [re.sub(r"^\w+: (?:error: |fatal: )?", "", line.strip()) for line in text.splitlines() if line.strip()]
    if not lines:
        return "it did not say why"
    named = [line for line in lines[:-1] if _LIMIT.fullmatch(line)]
    return f"{lines[-1]}: {explained(named[-1])}" if named else lines[-1]


_LIMIT = re.compile(r"(Assoc|QOS|Partition)[A-Z]\w+")
_WHOSE: Final = {
    "Assoc": "a limit of the account or of its user",
    "QOS": "a limit of the quality of service",
    "Partition": "the partition permits it not, or not now",
}
_WAITS: Final = {
    "Resources": "no node is free",
    "Priority": "jobs of higher priority wait for the nodes",
    "ReqNodeNotAvail": "the nodes are not available: down, drained or reserved",
    "None": "Slurm has not looked at it yet",
}


def explained(reason: str) -> str:
    """Say in words what Slurm's reason for a waiting job means: ``AssocGrpNodeLimit``, ``Resources``.

    The reasons are those of ``squeue``'s manual, where limits are named after what has them.
    """
    limit = _LIMIT.fullmatch(reason)
    if limit:
        return f"{reason} ({_WHOSE[limit[1]]})"
    plain = _WAITS.get(reason or "None")
    return f"{reason or 'None'} ({plain})" if plain else reason


# Lists of hosts: ``rack1n[01-03,7],login`` ---------------------------------------------------------------------------

_NONE = frozenset({"", "(null)", "None", "None assigned"})
_MOST = 100_000
_BRACKETS = re.compile(r"\[([^\[\]]*)\]")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")


def expand_hosts(text: str) -> tuple[str, ...]:
    """Return the names that ``text`` stands for, in its order.

    Raises:
        ValueError: It is not a list of hosts, or one of more than 100,000.
    """
    if text.strip() in _NONE:
        return ()
    every = (name for part in _parts(text.strip()) for name in _expanded(part))
    names = tuple(islice(every, _MOST + 1))
    if len(names) > _MOST:
        raise ValueError(f"{text!r} stands for more than {_MOST} hosts")
    return names


def _parts(text: str) -> Iterator[str]:
    """The parts between the commas that stand outside of brackets."""
    depth = start = 0
    for at, letter in enumerate(text):
        depth += (letter == "[") - (letter == "]")
        if letter == "," and depth == 0:
            yield text[start:at]
            start = at + 1
    yield text[start:]


def _expanded(part: str) -> Iterator[str]:
    found = _BRACKETS.search(part)
    if found is None:
        if not part or "[" in part or "]" in part:
            raise ValueError(f"{part!r} is not a list of hosts")
        yield part
        return
    head, tail = part[: found.start()], part[found.end() :]
    for item in found[1].split(","):
        numbers = _RANGE.fullmatch(item)
        if numbers is None:
            raise ValueError(f"{item!r} in {part!r} is not a range of numbers")
        first, last = numbers[1], numbers[2] or numbers[1]
        for number in range(int(first), int(last) + 1):
            middle = f"{head}{number:0{len(first)}d}"
            yield from _expanded(middle + tail) if "[" in tail else (middle + tail,)
