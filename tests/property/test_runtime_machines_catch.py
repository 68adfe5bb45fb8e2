"""Planted defects: the step-by-step machines must catch every one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test
from property.test_runtime_finish_machine import Finishes
from property.test_runtime_membership_machine import Members
from property.test_runtime_order_machine import Orders
from support import planted

from apgas.errors import ApgasError

# found is enough: no time is spent on a smaller example
HUNT = settings(
    max_examples=1500,
    stateful_step_count=50,
    phases=[Phase.generate],
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.parametrize(
    ("plant", "machine"),
    [
        (planted.forget_a_spawn, Finishes),
        (planted.report_before_quiet, Finishes),
        (planted.report_after_every_activity, Finishes),
        (planted.report_again, Finishes),
        (planted.lose_a_completion, Finishes),
        (planted.lose_the_errors, Finishes),
        (planted.act_on_a_future_epoch, Members),
        (planted.wait_for_no_final, Members),
        (planted.leavers_stay_marked, Members),
        (planted.forget_an_early_final, Members),
        (planted.stay_drained, Members),
        (planted.commit_twice, Members),
        (planted.use_an_id_twice, Members),
        (planted.commit_with_the_first_drained, Orders),
        (planted.obey_timers_of_the_past, Orders),
        pytest.param(planted.take_newcomers_too_late, Orders, marks=pytest.mark.slow),
        (planted.carry_out_what_was_withdrawn, Orders),
        (planted.forget_to_undo_a_late_choice, Orders),
        (planted.answer_the_last_call_twice, Orders),
        (planted.leave_the_next_order_waiting, Orders),
        (planted.overtake, Orders),
    ],
    ids=lambda value: value.__name__,
)
def test_the_machine_catches(
    plant: Callable[[pytest.MonkeyPatch], None],
    machine: type[RuleBasedStateMachine],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plant(monkeypatch)
    with pytest.raises((AssertionError, ApgasError, KeyError)):
        run_state_machine_as_test(machine, settings=HUNT)
