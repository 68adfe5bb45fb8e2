"""State machines that check themselves after every change."""

from __future__ import annotations

import subprocess
import sys

import pytest
from support.in_places.validation import CONTRADICTION, checked, validate
from support.mpi import IN_PLACES

import apgas.runtime.validation
from apgas.core import messages as m
from apgas.core import resize as r
from apgas.core.finish import FinishTable
from apgas.core.membership import Membership
from apgas.core.messages import PlaceInfo
from apgas.core.order import OrderMachine, Step
from apgas.core.place import PlaceCore
from apgas.errors import InvariantError

MEMBERS = [PlaceInfo(place, "h", 1, f"n{place}", place) for place in range(3)]


def test_off_it_is_the_class_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APGAS_VALIDATE", "")
    assert apgas.runtime.validation.checked(PlaceCore) is PlaceCore
    monkeypatch.delenv("APGAS_VALIDATE")
    assert apgas.runtime.validation.checked(PlaceCore) is PlaceCore


def test_on_it_is_what_the_named_module_makes_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APGAS_VALIDATE", "support.in_places.validation")
    assert apgas.runtime.validation.checked(PlaceCore).__name__ == "CheckedPlaceCore"


def test_on_it_changes_nothing_but_looks() -> None:
    core = checked(PlaceCore)(0, MEMBERS, 0)
    finish = core.open_finish()
    core.spawn(finish, 1, [], to_caller=False)
    assert isinstance(core, PlaceCore)
    assert core.finishes.live == 1


def test_a_question_does_not_look() -> None:
    """It may be asked while another thread is half way through a change."""
    assert checked(PlaceCore).may_begin is PlaceCore.may_begin


def test_a_contradiction_ends_the_process() -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(IN_PLACES)!r})\n"
        "from apgas.core.finish import FinishTable; from validation import checked\n"
        "table = checked(FinishTable)(0); finish = table.open(); table.live = 7\n"
        "try: table.spawned(finish, 1)\n"
        "finally: print('went on')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (CONTRADICTION, "")
    assert "contradicts itself after FinishTable.spawned: place 0: live 7 is not the sum" in done.stderr


def _core() -> PlaceCore:
    return PlaceCore(1, MEMBERS, 0)


def _lead_a_stranger(core: PlaceCore) -> None:
    core.membership.leaving.add(7)


def _lead_place_0(core: PlaceCore) -> None:
    core.membership.leaving.add(0)


def _reuse_an_id(core: PlaceCore) -> None:
    core.membership.next_place = 2


def _swap_a_member(core: PlaceCore) -> None:
    core.membership.members[1] = MEMBERS[2]


def _leave_unordered(core: PlaceCore) -> None:
    core.membership.leaving.add(1)


def _drain_unordered(core: PlaceCore) -> None:
    core._leaving.drained = True


def _wait_for_a_call_never_made(core: PlaceCore) -> None:
    core.calls[5] = 1, m.Spawn(0, m.FinishId(0, 0), 5, False)


def _outlive_a_finish(core: PlaceCore) -> None:
    core.finishes._homed.pop(core.open_finish())


@pytest.mark.parametrize(
    "damage",
    [
        _lead_a_stranger,
        _lead_place_0,
        _reuse_an_id,
        _swap_a_member,
        _leave_unordered,
        _drain_unordered,
        _wait_for_a_call_never_made,
        _outlive_a_finish,
    ],
    ids=lambda damage: damage.__name__.strip("_"),
)
def test_the_validator_of_a_place_sees(damage: object) -> None:
    core = _core()
    validate(core)
    assert callable(damage)
    damage(core)
    with pytest.raises(InvariantError):
        validate(core)


def _reshape() -> OrderMachine:
    machine = OrderMachine({info.place: info for info in MEMBERS})
    machine.enable()
    machine.ordered(r.ResizeOrder(1, "shrink", 1), 5.0)
    return machine


def _idle_with_an_order(machine: OrderMachine) -> None:
    machine.step = Step.IDLE


def _wait_without_a_handler(machine: OrderMachine) -> None:
    machine.enabled = False


def _spawn_for_a_shrink(machine: OrderMachine) -> None:
    machine.step = Step.SPAWN


def _drain_nobody(machine: OrderMachine) -> None:
    machine.step = Step.DRAIN


def _await_a_stayer(machine: OrderMachine) -> None:
    machine._now().pending = {2}


def _keep_too_many(machine: OrderMachine) -> None:
    machine._waiting.extend([r.ResizeOrder(2, "grow", 1)] * 65)


def _abandon_the_future(machine: OrderMachine) -> None:
    machine._abandoned[99] = 1


def _run_backwards(machine: OrderMachine) -> None:
    machine._now().phase_began_s = 1.0


@pytest.mark.parametrize(
    "damage",
    [
        _idle_with_an_order,
        _wait_without_a_handler,
        _spawn_for_a_shrink,
        _drain_nobody,
        _await_a_stayer,
        _keep_too_many,
        _abandon_the_future,
        _run_backwards,
    ],
    ids=lambda damage: damage.__name__.strip("_"),
)
def test_the_validator_of_orders_sees(damage: object) -> None:
    machine = _reshape()
    validate(machine)
    assert callable(damage)
    damage(machine)
    with pytest.raises(InvariantError):
        validate(machine)


def test_validators_are_quiet_on_fresh_states() -> None:
    validate(Membership(MEMBERS, 0))
    validate(FinishTable(0))
    validate(OrderMachine({}))
