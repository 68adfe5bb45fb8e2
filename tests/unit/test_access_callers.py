"""Who may ask for what."""

from __future__ import annotations

import asyncio
import gc
import os
import pwd
import socket
import struct
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast, get_args

import pytest

from scheduler_bridge.daemon import ControlClient, ControlError
from scheduler_bridge.daemon.admission import JobFacts
from scheduler_bridge.daemon.config import DaemonError
from scheduler_bridge.daemon.control.access import Caller, Door, NotPermittedError, any_user, owner_only, permitted
from scheduler_bridge.daemon.requests import (
    AnyRequest,
    Cancel,
    ChangeNode,
    Explain,
    Failure,
    GetRecord,
    HeldBy,
    Hold,
    JobRequest,
    LimitUsers,
    Prioritise,
    Reserve,
    Resize,
    Shutdown,
    Status,
    Submit,
    Unreserve,
    Use,
)
from scheduler_bridge.daemon.storage.log_state import spec_of

ANNA, OPERATOR = Caller("anna"), Caller("olga", operator=True)


def owned(user: str, held_by: HeldBy | None = None) -> JobFacts:
    request = JobRequest(name="job", command=("true",), user=user)
    return JobFacts(request, spec_of(1, request, 0.0), held_by=held_by)


JOBS = {1: owned("anna"), 2: owned("ben"), 3: owned("anna", "operator"), 4: owned("anna", "user")}
JOB = JobRequest(name="job", command=("true",))
FOR_ALL: list[AnyRequest] = [Status(), Explain(job=2)]
OF_ONE_JOB: list[AnyRequest] = [
    Cancel(job=2),
    Resize(job=2, delta=1),
    Hold(job=2, as_user=True),
    Prioritise(job=2, priority=-1),
]
FOR_OPERATORS: list[AnyRequest] = [
    Use(policy="fcfs"),
    ChangeNode(node="n1", to="drain"),
    LimitUsers(nodes=1),
    Reserve(in_s=0, duration_s=1),
    Unreserve(name="r"),
    GetRecord(),
    Shutdown(),
]


def names(request: AnyRequest) -> str:
    return type(request).__name__


def test_every_request_is_judged_here() -> None:
    known = {type(request) for request in (*FOR_ALL, *OF_ONE_JOB, *FOR_OPERATORS, Submit(job=JOB))}
    assert known == set(get_args(AnyRequest))


BENS = Submit(job=JobRequest(name="job", command=("true",), user="ben", priority=9))


@pytest.mark.parametrize("request_", [*FOR_ALL, *OF_ONE_JOB, *FOR_OPERATORS, BENS], ids=names)
def test_operators_may_everything(request_: AnyRequest) -> None:
    assert permitted(request_, OPERATOR, JOBS.get) is request_


@pytest.mark.parametrize("request_", FOR_ALL, ids=names)
def test_users_may_look(request_: AnyRequest) -> None:
    assert permitted(request_, ANNA, JOBS.get) is request_


@pytest.mark.parametrize("request_", FOR_OPERATORS, ids=names)
def test_users_do_not_rule(request_: AnyRequest) -> None:
    with pytest.raises(NotPermittedError, match="anna is no operator"):
        permitted(request_, ANNA, JOBS.get)


@pytest.mark.parametrize("request_", OF_ONE_JOB, ids=names)
def test_users_have_a_say_in_their_own_jobs_alone(request_: AnyRequest) -> None:
    assert permitted(request_, Caller("ben"), JOBS.get) == request_
    with pytest.raises(NotPermittedError, match="job 2 is not anna's"):
        permitted(request_, ANNA, JOBS.get)


def test_of_a_job_that_is_over_everybody_hears_that_it_is() -> None:
    assert permitted(Cancel(job=77), ANNA, JOBS.get) == Cancel(job=77)


@pytest.mark.parametrize("caller", [ANNA, OPERATOR])
def test_a_job_is_whose_who_submits_it(caller: Caller) -> None:
    request = permitted(Submit(job=JOB), caller, JOBS.get)
    assert isinstance(request, Submit)
    assert request.job.user == caller.name


def test_users_submit_for_themselves() -> None:
    with pytest.raises(NotPermittedError, match="anna submits no jobs for ben"):
        permitted(Submit(job=JobRequest(name="job", command=("true",), user="ben")), ANNA, JOBS.get)


def test_users_do_not_put_themselves_first() -> None:
    with pytest.raises(NotPermittedError, match="priority 1"):
        permitted(Submit(job=JobRequest(name="job", command=("true",), priority=1)), ANNA, JOBS.get)
    with pytest.raises(NotPermittedError, match="priority 5"):
        permitted(Prioritise(job=1, priority=5), ANNA, JOBS.get)
    assert permitted(Prioritise(job=1, priority=-5), ANNA, JOBS.get) == Prioritise(job=1, priority=-5)


def test_users_release_what_they_hold_and_not_what_an_operator_holds() -> None:
    for job in (1, 4):
        permitted(Hold(job=job, held=False), ANNA, JOBS.get)
    with pytest.raises(NotPermittedError, match="job 3 is not released: an operator holds it") as refused:
        permitted(Hold(job=3, held=False), ANNA, JOBS.get)
    assert refused.value.hint == "ask one to release it"
    for job in (1, 3, 4):
        request = Hold(job=job, held=False)
        assert permitted(request, OPERATOR, JOBS.get) is request


@pytest.mark.parametrize(
    ("caller", "as_user"), [(ANNA, True), (OPERATOR, False), (Caller("anna", operator=True), True)], ids=str
)
def test_a_hold_is_its_user_s_own_whoever_she_is(caller: Caller, as_user: bool) -> None:
    assert permitted(Hold(job=1), caller, JOBS.get) == Hold(job=1, as_user=as_user)


def test_an_operator_may_hold_a_job_as_its_user() -> None:
    request = Hold(job=1, as_user=True)
    assert permitted(request, OPERATOR, JOBS.get) is request


def connected(uid: int) -> asyncio.StreamWriter:
    """A connection from a user, as the kernel describes it."""
    peer = SimpleNamespace(getsockopt=lambda *_: struct.pack("3i", 1, uid, uid))
    return cast("asyncio.StreamWriter", SimpleNamespace(get_extra_info=lambda _: peer))


def test_the_kernel_says_who_calls() -> None:
    ours, stranger = os.getuid(), 65534
    assert any_user(connected(ours)) == Caller(pwd.getpwuid(ours).pw_name, operator=True)
    assert any_user(connected(0)).operator
    assert any_user(connected(stranger)) == Caller(pwd.getpwuid(stranger).pw_name)
    assert any_user(connected(2**30 - 7)) == Caller(f"uid{2**30 - 7}"), "it has no name"


def test_the_control_socket_lets_its_owner_and_root_in_and_no_one_else() -> None:
    for uid in (os.getuid(), 0):
        assert owner_only(connected(uid)) == any_user(connected(uid))
    assert owner_only(connected(65534)) == Failure(reason="this scheduler belongs to another user")


def test_a_door_may_be_gone_when_it_is_removed(tmp_path: Path) -> None:
    Door(tmp_path / "door").remove()


def test_names_of_users_are_compared_by_what_they_say() -> None:
    jobs = {1: owned("".join(("an", "na")))}
    assert permitted(Hold(job=1), Caller("anna", operator=True), jobs.get) == Hold(job=1, as_user=True)


def test_a_door_that_cannot_be_had_leaves_nothing_open(tmp_path: Path) -> None:
    gc.collect()
    before = len(list(Path("/proc/self/fd").iterdir()))
    gc.disable()
    try:
        with pytest.raises(DaemonError, match="cannot listen at unix:"):
            asyncio.run(Door(tmp_path / "nowhere" / "door").open(cast("Any", None), 1000))
        assert len(list(Path("/proc/self/fd").iterdir())) == before
    finally:
        gc.enable()


@pytest.mark.parametrize(("mode", "taken"), [(0o777, False), (0o775, False), (0o1777, True), (0o755, True)])
def test_a_door_is_not_where_others_could_replace_it(tmp_path: Path, mode: int, taken: bool) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder").chmod(mode)
    door = Door(tmp_path / "folder" / "door")

    class Listening:
        async def start_unix(self, bound: socket.socket, _limit: int) -> None:
            bound.close()

    if taken:
        asyncio.run(door.open(cast("Any", Listening()), 1000))
    else:
        with pytest.raises(DaemonError, match="other users could put a door of their own in its place"):
            asyncio.run(door.open(cast("Any", Listening()), 1000))
    assert door.path.exists() == taken


def test_nothing_is_said_to_a_scheduler_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user who made /tmp/malleable first got the jobs of the others."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "control.sock"))
        listening.listen()
        me = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: me + 1)
        with pytest.raises(ControlError, match=f"user {me} serves {tmp_path}, not you"):
            ControlClient(tmp_path).snapshot()
        connection, _ = listening.accept()
        with connection:
            assert connection.recv(1000) == b""
