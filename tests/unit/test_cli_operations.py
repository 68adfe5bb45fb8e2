"""What operators give: names of nodes, and when a reservation is."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from scheduler_bridge.cli import operations
from scheduler_bridge.cli.app import run
from scheduler_bridge.daemon import ControlError
from scheduler_bridge.daemon.requests import ChangeNode


@dataclass
class Scheduler:
    """Notes what it is asked for, and shows nothing."""

    asked: list[tuple[str, str]] = field(default_factory=list)

    def manage(self, change: ChangeNode) -> None:
        self.asked.append((change.to, change.node))

    def snapshot(self) -> None:
        raise ControlError("that is all")


@pytest.fixture
def scheduler(monkeypatch: pytest.MonkeyPatch) -> Scheduler:
    found = Scheduler()
    monkeypatch.setattr(operations, "client", lambda _: found)
    return found


def test_nodes_are_given_one_by_one_or_in_lists(scheduler: Scheduler) -> None:
    assert run(["nodes", "--remove", "a,b", "--remove", "c", "--add", "d"]) == 1
    assert scheduler.asked == [("add", "d"), ("remove", "a"), ("remove", "b"), ("remove", "c")]


@pytest.mark.parametrize("names", ["a b", "a,", "", "a" * 256])
def test_what_is_no_name_is_said_before_anything_is_done(
    names: str, scheduler: Scheduler, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["nodes", "--add", "good", "--drain", names]) == 2
    assert "not the name of a node\na node's name has 1 to 255 letters, " in capsys.readouterr().err
    assert not scheduler.asked


@pytest.mark.parametrize("when", [("--start", "+4000d", "--for", "2h"), ("--for", "9999999h"), ("--for", "9" * 400)])
def test_a_reservation_is_within_ten_years(
    when: tuple[str, ...], scheduler: Scheduler, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["reserve", "--nodes", "1", *when]) == 2
    assert "a reservation begins within ten years (3650 days)" in capsys.readouterr().err
