"""What follows from looks at hosts, whatever they give and whatever operators do meanwhile."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from scheduler_bridge.backends.hosts import Rules
from scheduler_bridge.backends.hosts.watch import Action, Record, judge
from scheduler_bridge.daemon import Standing


class OneHost(RuleBasedStateMachine):
    """A node, its host, and an operator; the model does what the actions say, and remembers what was looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.standing = Standing.SERVING
        self.record = Record()
        self.now_s = 0.0
        self.looks: list[bool] = []
        self.wished_out = False

    @initialize(failures=st.integers(1, 4))
    def begin(self, failures: int) -> None:
        self.limits = Rules(failures=failures)

    @rule(answered=st.booleans(), after_s=st.sampled_from([1.0, 30.0, 200.0]))
    def look(self, answered: bool, after_s: float) -> None:
        before, ended = self.standing, self.record.ended
        self.now_s += after_s
        self.looks.append(answered)
        self.record, action = judge(self.limits, self.record, before, self.now_s, answered=answered)
        row = self.row()
        assert self.record.failed == row
        match action:
            case Action.REGAIN:
                assert answered
                assert before is Standing.AILING
                self.standing = Standing.SERVING
            case Action.SUSPECT:
                assert before is Standing.SERVING
                assert 0 < row < self.limits.failures
            case Action.LOSE:
                assert row >= self.limits.failures
            case Action.END:
                assert row > self.limits.failures
                assert not ended
                assert self.now_s - self.record.since_s >= self.limits.spared_s
            case Action.NOTHING:
                assert before is not Standing.AILING or not answered
        if action in (Action.SUSPECT, Action.LOSE, Action.END) and before is not Standing.OUT:
            self.standing = Standing.AILING
        if row == self.limits.failures:
            assert action is Action.LOSE

    @rule()
    def operator_takes_it_out(self) -> None:
        self.standing, self.wished_out = Standing.OUT, True

    @rule()
    def operator_puts_it_back(self) -> None:
        self.standing, self.wished_out = Standing.SERVING, False

    @rule()
    def scheduler_dies_and_comes_back(self) -> None:
        self.record, self.looks = Record(), []

    @invariant()
    def what_an_operator_took_out_stays_out(self) -> None:
        assert (self.standing is Standing.OUT) == self.wished_out

    @invariant()
    def a_host_that_answers_serves_unless_it_is_not_to(self) -> None:
        if self.looks and self.looks[-1] and self.record.failed == 0:
            assert self.standing is not Standing.AILING

    def row(self) -> int:
        """How many looks in a row failed."""
        count = 0
        for answered in reversed(self.looks):
            if answered:
                break
            count += 1
        return count


TestOneHost = OneHost.TestCase


@given(failures=st.integers(1, 5), failed=st.integers(0, 200), every_s=st.floats(0.1, 1000), again_s=st.floats(0.1, 9))
def test_looks_become_rarer_but_never_end(failures: int, failed: int, every_s: float, again_s: float) -> None:
    rules = Rules(every_s=every_s, failures=failures, again_s=again_s)
    wait_s = rules.wait_s(failed)
    assert 0 < wait_s <= max(rules.slowest_s, every_s)
    if failed >= failures:
        assert rules.wait_s(failed + 1) >= wait_s >= every_s


@given(failures=st.integers(1, 5), answers=st.lists(st.booleans(), max_size=30))
def test_jobs_are_ended_once_for_each_time_that_a_host_is_lost(failures: int, answers: list[bool]) -> None:
    rules, record, standing, lost = Rules(failures=failures), Record(), Standing.SERVING, 0
    for answered in answers:
        record, action = judge(rules, record, standing, 0.0, answered=answered)
        lost += action is Action.LOSE
        standing = Standing.SERVING if answered else Standing.AILING
    pattern = "".join("." if answered else "x" for answered in answers)
    assert lost == sum(len(part) >= failures for part in pattern.split("."))
