"""What operators do with a scheduler that runs: nodes, reservations, policy, limits, and its end."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated

import typer
from rich.console import RenderableType
from rich.table import Table

from scheduler_bridge import policies
from scheduler_bridge.cli.common import (
    CliError,
    Commands,
    Outcome,
    ReachOption,
    client,
    plain_table,
)
from scheduler_bridge.cli.inputs import clock_text, local_now, read_duration, read_numbers, read_time, time_text
from scheduler_bridge.cli.options import option
from scheduler_bridge.cli.policies import LoadOption, load_policies
from scheduler_bridge.daemon import RefusedError, ReservationStatus, Snapshot
from scheduler_bridge.daemon.config import NODE_NAME
from scheduler_bridge.daemon.requests import (
    RESERVATION_MOST_S,
    ChangeNode,
    LimitUsers,
    NodeChange,
    Reserve,
    Unreserve,
)
from scheduler_bridge.model import wording
from scheduler_bridge.report import words

# ``malleable nodes`` -------------------------------------------------------------------------------------------------


def nodes(
    drain: list[str] | None = option(None, "--drain", "Give it no further jobs; its job goes on.", "NODES"),
    resume: list[str] | None = option(None, "--resume", "Put it back into service.", "NODES"),
    add: list[str] | None = option(None, "--add", "Put a new one into service.", "NODES"),
    remove: list[str] | None = option(
        None, "--remove", "Let it leave the cluster, when its jobs have left it.", "NODES"
    ),
    down: list[str] | None = option(None, "--down", "Take it out of service; its job is lost.", "NODES"),
    state: ReachOption = None,
) -> Outcome:
    """List the nodes and the job that each one works for; before that, add, resume, drain, take down or remove some.

    Example: malleable nodes --drain node1
    """
    wishes: dict[NodeChange, list[str] | None]
    wishes = {"add": add, "resume": resume, "drain": drain, "down": down, "remove": remove}  # done in this order
    changes = [ChangeNode(node=name, to=to) for to, lists in wishes.items() for name in _nodes(to, lists or [])]
    for change in changes:
        client(state).manage(change)
    snapshot = client(state).snapshot()
    return Outcome(snapshot.nodes, _shown(snapshot))


def _shown(snapshot: Snapshot) -> Iterator[RenderableType]:
    names = {job.job: job.name for job in snapshot.jobs}
    busy = sum(1 for node in snapshot.nodes if node.state == "busy")
    why = ("WHY",) if any(node.reason for node in snapshot.nodes) else ()
    kept: dict[str, list[str]] = {}
    for reservation in snapshot.reservations:
        for name in reservation.nodes:
            kept.setdefault(name, []).append(reservation_line(reservation, snapshot))
    reserved = ("RESERVED",) if kept else ()
    table = plain_table("NODE", "STATE", "JOB", *reserved, *why)
    for node in snapshot.nodes:
        job = "" if node.job is None else f"{node.job} {names.get(node.job, '')}"
        more = [", ".join(kept.get(node.name, ()))] if reserved else []
        table.add_row(node.name, node.state, job, *more, *([node.reason] if why else []))
    yield table
    yield f"{busy} of {len(snapshot.nodes)} nodes busy, utilization since start {100 * snapshot.utilization:.0f} %"
    if snapshot.loans:
        yield snapshot.loans


def _nodes(option: str, lists: list[str]) -> list[str]:
    """Return the names in lists such as node1,node2."""
    names = [name.strip() for names in lists for name in names.split(",")]
    for name in names:
        if not NODE_NAME.fullmatch(name):
            why = "a node's name has 1 to 255 letters, digits, '.', '_' and '-'"
            raise CliError(f"--{option} {name!r}: not the name of a node", why, f"for example --{option} node1,node2")
    return names


# ``malleable reserve``, with ``list`` and ``cancel`` -----------------------------------------------------

reserve = Commands(context_settings={"help_option_names": ["-h", "--help"]})


@reserve.callback(invoke_without_command=True)
def make_reservation(
    context: typer.Context,
    nodes: int | None = option(None, "--nodes", "How many nodes.", min=1),
    named: str | None = option(None, "--node-names", "Just these nodes, separated by commas.", "A,B"),
    start: str = option("now", "--start", "now, +30m, 18:00 or 2026-12-01T18:00.", "TIME"),
    duration: str | None = option(None, "--for", "How long: 90 (seconds), 45m, 2h.", "TIME"),
    users: str | None = option(None, "--users", "Only these users may ask for it.", "A,B", show_default="everybody"),
    jobs: str | None = option(None, "--jobs", "Waiting jobs that are to run in it, for example 3,5-7.", "JOBS"),
    name: str = option("", "--name", "What jobs ask for.", show_default="a new one"),
    state: ReachOption = None,
) -> Outcome | None:
    """Keep nodes from a time on; jobs ask for them with submit --reservation NAME.

    Example: malleable reserve --nodes 4 --start 18:00 --for 2h --users anna
    """
    if context.invoked_subcommand is not None:
        return None
    if (nodes is None) == (named is None):
        raise CliError("--nodes or --node-names", "a reservation needs one of them", "for example --nodes 4")
    if duration is None or (lasts_s := read_duration("--for", duration)) <= 0:
        raise CliError(f"--for {duration or 'is missing'}", "a reservation lasts for some time", "for example --for 2h")
    now = local_now()
    begins = read_time("--start", start, now)
    in_s = (begins - now).total_seconds()
    for which, given, example, seconds in (("--start", start, "18:00", in_s), ("--for", duration, "2h", lasts_s)):
        if seconds > RESERVATION_MOST_S:
            why = "a reservation begins within ten years (3650 days), and lasts no longer than that"
            raise CliError(f"{which} {given}: more than ten years", why, f"for example {which} {example}")
    kept = client(state).reserve(
        Reserve(
            in_s=in_s,
            duration_s=lasts_s,
            nodes=nodes,
            named=_names(named),
            name=name,
            users=_names(users),
            jobs=read_numbers("--jobs", jobs) or (),
        )
    )
    who = " and ".join(filter(None, (", ".join(kept.users), "the jobs named" if jobs else ""))) or "everybody"
    what = (
        f"{kept.name}: {words.plural(len(kept.nodes), 'node')} ({words.some(kept.nodes)}) "
        f"from {time_text(begins, now)} for {words.seconds(lasts_s)}, for {who}"
    )
    return Outcome(kept, [what, f"jobs ask for it with: malleable submit --reservation {kept.name} ..."])


@reserve.command("list")
def list_reservations(state: ReachOption = None) -> Outcome:
    """List the reservations that are not over.

    Example: malleable reserve list
    """
    snapshot = client(state).snapshot()
    return Outcome(snapshot.reservations, [table(snapshot) if snapshot.reservations else "nothing is reserved"])


@reserve.command("cancel")
def cancel_reservation(
    name: Annotated[str, typer.Argument(help="Name of the reservation.")],
    state: ReachOption = None,
) -> Outcome:
    """Keep the nodes no longer; jobs that wait for them wait on as others do, and those that run go on.

    Example: malleable reserve cancel r1
    """
    text = client(state).manage(Unreserve(name=name))
    return Outcome({"reservation": name, "done": text}, [text])


def table(snapshot: Snapshot) -> Table:
    """Return the reservations as a table, in the user's time."""
    found = plain_table("RESERVATION", "STATE", "FROM", "TO", "NODES", "USERS", "JOBS")
    now = local_now()
    for kept in snapshot.reservations:
        found.add_row(
            kept.name,
            "now" if kept.started else "to come",
            clock_text(kept.start_s, snapshot.now_s, now),
            clock_text(kept.end_s, snapshot.now_s, now),
            f"{len(kept.nodes)}: {words.some(kept.nodes)}",
            ", ".join(kept.users) or "everybody",
            words.some([str(job) for job in kept.jobs]) or "-",
        )
    return found


def reservation_line(kept: ReservationStatus, snapshot: Snapshot) -> str:
    """Say in one line what is reserved when."""
    now = local_now()
    until = clock_text(kept.end_s, snapshot.now_s, now)
    if kept.started:
        return f"{kept.name} until {until}"
    return f"{kept.name} from {clock_text(kept.start_s, snapshot.now_s, now)} to {until}"


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())


# ``malleable policy`` ------------------------------------------------------------------------------------------------


def policy(
    name: Annotated[str | None, typer.Argument(help="Let this policy decide.", show_default=False)] = None,
    parameters: list[str] | None = option(None, "--set", "A parameter of the policy.", "NAME=VALUE"),
    load: LoadOption = None,
    state: ReachOption = None,
) -> Outcome:
    """Say which policy decides, or let another one decide from now on.

    Example: malleable policy easy
    """
    if name is not None:
        load_policies(load)
        try:  # the scheduler knows the policies that it was given; to read parameters, one has to know them here
            client(state).use(name, policies.parse(name, parameters) if parameters else {})
        except RefusedError as refused:  # what was named is wrong
            raise CliError(str(refused), hint=refused.hint) from None
    decides = name or client(state).snapshot().policy
    return Outcome({"policy": decides}, [decides])


# ``malleable limits`` ------------------------------------------------------------------------------------------------


def limits(
    user_nodes: str | None = option(None, "--user-nodes", "Nodes of one user's jobs together, at most; or none.", "N"),
    state: ReachOption = None,
) -> Outcome:
    """Say what users may have at most, or let another limit hold from now on.

    Example: malleable limits --user-nodes 8
    """
    if user_nodes is not None:
        client(state).manage(LimitUsers(nodes=_count(user_nodes)))
    most = client(state).snapshot().user_nodes
    held = "any number of nodes" if most is None else f"{wording.nodes(most)} at most"
    return Outcome({"user_nodes": most}, [f"the jobs of one user hold {held}"])


def _count(text: str) -> int | None:
    if text == "none":
        return None
    if not re.fullmatch(r"\d{1,7}", text) or not 1 <= int(text) <= 1_000_000:
        raise CliError(f"--user-nodes {text}: not a number of nodes", "it is 1 to 1000000, or none")
    return int(text)


# ``malleable shutdown`` ----------------------------------------------------------------------------------------------


def shutdown(
    keep_jobs: bool = option(False, "--keep-jobs", "Leave the jobs to the next serve with this state folder."),
    state: ReachOption = None,
) -> None:
    """End all jobs and the scheduler, and wait until they have ended.

    Example: malleable shutdown --state /tmp/malleable
    """
    client(state).shutdown(keep_jobs=keep_jobs)
