"""The daemon against jobs that carry orders out, decline them, or never answer; the test itself plays the jobs."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from support import PATIENCE_S
from support.played import Stage, perform

from apgas.malleability import orders as wire
from scheduler_bridge.daemon import DaemonConfig
from scheduler_bridge.daemon.requests import ChangeNode


@pytest.fixture
def config(tmp_path: Path) -> DaemonConfig:
    return DaemonConfig(nodes=("n1", "n2", "n3"), state_dir=tmp_path / "state", grace_s=0.2)


def test_a_job_grows_when_nodes_become_free(config: DaemonConfig) -> None:
    async def play(stage: Stage) -> None:
        rigid = stage.submit(nodes=2)
        job_id, job = await stage.malleable(1, 3)
        stage.daemon.cancel(rigid)
        order = await job.hear()
        assert isinstance(order, wire.Grow)
        assert (order.count, sorted(order.nodes)) == (2, ["n1", "n2"])
        phases = {"pre": 0.25, "spawn": 0.5}
        await job.say(
            wire.Outcome(order=order.order, kind="grow", outcome="done", nodes=order.nodes, seconds=0.75, phases=phases)
        )
        await stage.until(lambda: stage.daemon.snapshot().job(job_id).grows == 1)
        assert sorted(stage.daemon.snapshot().job(job_id).nodes) == ["n1", "n2", "n3"]
        (resize,) = stage.resizes(job_id)
        assert (resize.outcome, resize.seconds, resize.phases) == ("done", 0.75, phases)
        assert stage.link(job_id).held == {"n1", "n2", "n3"}

    perform(config, play)


def test_a_job_shrinks_and_chooses_the_nodes(config: DaemonConfig) -> None:
    async def play(stage: Stage) -> None:
        job_id, job = await stage.malleable(1, 3)
        first = stage.daemon.snapshot().job(job_id).nodes[0]
        rigid = stage.submit(nodes=1)
        order = await job.hear()
        assert isinstance(order, wire.Shrink)
        chosen = next(node for node in ("n1", "n2", "n3") if node not in (first, *order.nodes))
        await job.say(wire.Outcome(order=order.order, kind="shrink", outcome="done", nodes=(chosen,)))
        await stage.until(lambda: stage.daemon.snapshot().job(rigid).state == "running")
        assert stage.daemon.snapshot().job(rigid).nodes == (chosen,)
        assert chosen not in stage.link(job_id).held

    perform(config, play)


@pytest.mark.parametrize("outcome", ["refused", "aborted"])
def test_a_job_that_declines_keeps_its_nodes(config: DaemonConfig, outcome: wire.OutcomeKind) -> None:
    async def play(stage: Stage) -> None:
        job_id, job = await stage.malleable(1, 3)
        rigid = stage.submit(nodes=1)
        order = await job.hear()
        assert isinstance(order, wire.Shrink)
        await job.say(wire.Outcome(order=order.order, kind="shrink", outcome=outcome, reason="not now"))
        await stage.until(lambda: stage.daemon.snapshot().job(job_id).resizing is None)
        assert len(stage.daemon.snapshot().job(job_id).nodes) == 3
        assert stage.daemon.snapshot().job(rigid).state == "waiting"
        (resize,) = stage.resizes(job_id)
        assert (resize.outcome, resize.reason) == (outcome, "not now")

    perform(config, play)


def test_a_withdrawn_order_is_answered(config: DaemonConfig) -> None:
    async def play(stage: Stage) -> None:
        job_id, job = await stage.malleable(1, 3)
        stage.submit(nodes=1)
        order = await job.hear()
        assert isinstance(order, wire.Shrink)
        await job.say(wire.Deferred(order=order.order, reason="final reduction"))
        assert await job.hear() == wire.Withdraw(order=order.order)
        await job.say(wire.Outcome(order=order.order, kind="shrink", outcome="aborted", reason="withdrawn"))
        await stage.until(lambda: stage.daemon.snapshot().job(job_id).resizing is None)
        assert stage.daemon.snapshot().job(job_id).ready

    perform(msgspec.structs.replace(config, resize_deadline_s=0.05, withdraw_s=PATIENCE_S), play)


def test_a_job_that_never_answers_gets_no_further_orders(config: DaemonConfig) -> None:
    async def play(stage: Stage) -> None:
        job_id, job = await stage.malleable(1, 3)
        stage.submit(nodes=1)
        order = await job.hear()
        assert isinstance(order, wire.Shrink)
        await stage.until(lambda: stage.daemon.snapshot().job(job_id).resizing is None)
        assert not stage.daemon.snapshot().job(job_id).ready
        assert len(stage.daemon.snapshot().job(job_id).nodes) == 3
        assert await job.hear() == wire.Withdraw(order=order.order)
        await job.say(wire.Outcome(order=order.order, kind="shrink", outcome="done", nodes=order.nodes))
        assert "not open" in await job.refusal()
        assert stage.resizes(job_id)[0].outcome == "aborted"

    perform(msgspec.structs.replace(config, resize_deadline_s=0.05, withdraw_s=0.05), play)


def test_a_job_on_nodes_that_it_lost_is_ended(config: DaemonConfig) -> None:
    async def play(stage: Stage) -> None:
        rigid = stage.submit(nodes=2)
        job_id, job = await stage.malleable(1, 3)
        stage.daemon.cancel(rigid)
        order = await job.hear()
        assert isinstance(order, wire.Grow)
        await stage.until(lambda: stage.daemon.snapshot().job(job_id).resizing is None)
        await job.say(wire.Outcome(order=order.order, kind="grow", outcome="done", nodes=order.nodes))
        await stage.until(lambda: not stage.daemon.snapshot().job(job_id).nodes)
        ended = stage.daemon.snapshot().job(job_id)
        assert ended.state == "failed"
        assert order.nodes[0] in ended.reason

    perform(msgspec.structs.replace(config, resize_deadline_s=0.05, withdraw_s=0.05), play)


def test_a_job_that_grew_nobody_knows_where_is_ended(config: DaemonConfig) -> None:
    async def play(stage: Stage) -> None:
        rigid = stage.submit(nodes=2)
        job_id, job = await stage.malleable(1, 3)
        stage.daemon.cancel(rigid)
        order = await job.hear()
        assert isinstance(order, wire.Grow)
        await job.say(wire.Outcome(order=order.order, kind="grow", outcome="done", nodes=("n1", "n1")))
        assert "twice" in await job.refusal()
        await stage.until(lambda: not stage.daemon.snapshot().job(job_id).nodes)
        ended = stage.daemon.snapshot().job(job_id)
        assert ended.state == "failed"
        assert "other nodes than" in ended.reason

    perform(msgspec.structs.replace(config, resize_deadline_s=0.2, withdraw_s=0.05), play)


def test_outcomes_that_do_not_fit_change_nothing(config: DaemonConfig) -> None:
    async def play(stage: Stage) -> None:
        job_id, job = await stage.malleable(1, 3)
        await job.say(wire.Outcome(order=99, kind="grow", outcome="done", nodes=("n9",)))
        assert "order 99 is not open" in await job.refusal()
        stage.submit(nodes=1)
        order = await job.hear()
        assert isinstance(order, wire.Shrink)
        before = stage.daemon.snapshot().job(job_id)
        await job.say(wire.Outcome(order=order.order, kind="shrink", outcome="done", nodes=("elsewhere",)))
        assert "elsewhere" in await job.refusal()
        assert stage.daemon.snapshot().job(job_id) == before
        await job.say(wire.Outcome(order=order.order, kind="shrink", outcome="done", nodes=order.nodes))
        await stage.until(lambda: stage.daemon.snapshot().job(job_id).shrinks == 1)

    perform(config, play)


def test_an_evolving_job_is_answered(config: DaemonConfig) -> None:
    async def play(stage: Stage) -> None:
        _, job = await stage.malleable(1, 3)
        await job.say(wire.Evolving(request=4, delta=-1))
        heard = [await job.hear(), await job.hear()]
        assert next(message for message in heard if isinstance(message, wire.Answer)).granted == -1
        assert next(message for message in heard if isinstance(message, wire.Shrink)).count == 1
        await job.say(wire.Evolving(request=5, delta=1))
        answer = await job.hear()
        assert isinstance(answer, wire.Answer)
        assert answer.granted == 0
        assert answer.reason

    perform(config, play)


def test_progress_shows_in_the_queue(config: DaemonConfig) -> None:
    async def play(stage: Stage) -> None:
        job_id, job = await stage.malleable(1, 1)
        await job.say(wire.Progress(done=5.0, total=20.0, unit="nodes"), wire.Evolving(request=1, delta=1))
        await job.hear()
        status = stage.daemon.snapshot().job(job_id)
        assert (status.progress, status.progress_total, status.progress_unit) == (5.0, 20.0, "nodes")

    perform(config, play)


def test_a_job_that_is_to_run_again_has_made_no_progress(config: DaemonConfig) -> None:
    """It showed what it had done before it was lost, until it said something new."""

    async def play(stage: Stage) -> None:
        job_id = stage.submit(job_class="malleable", nodes=3, requeue=True)
        await stage.until(lambda: stage.daemon.snapshot().job(job_id).state == "running")
        job = await stage.play(job_id)
        await job.say(wire.Ready(nodes=("n1", "n2", "n3")))
        await job.say(wire.Progress(done=5.0, total=20.0, unit="nodes"), wire.Evolving(request=1, delta=1))
        await job.hear()
        assert stage.daemon.snapshot().job(job_id).progress == 5.0
        stage.daemon.manage(ChangeNode(node="n2", to="down"))
        await stage.until(lambda: stage.daemon.snapshot().job(job_id).state == "waiting")
        assert stage.daemon.snapshot().job(job_id).progress is None

    perform(config, play)


def test_a_job_that_reconnects_goes_on(config: DaemonConfig) -> None:
    async def play(stage: Stage) -> None:
        job_id, job = await stage.malleable(1, 3)
        stage.submit(nodes=1)
        order = await job.hear()
        await job.hang_up(rudely=True)
        again = await stage.play(job_id)
        assert await again.hear() == order
        half_open, again = again, await stage.play(job_id)  # The older connection of a job gives way.
        assert await half_open.at_end()
        assert await again.hear() == order
        assert isinstance(order, wire.Shrink)
        await again.say(wire.Outcome(order=order.order, kind="shrink", outcome="done", nodes=order.nodes))
        await stage.until(lambda: stage.daemon.snapshot().job(job_id).shrinks == 1)

    perform(config, play)


def test_a_node_that_is_lent_is_left_at_once_whatever_the_job_was_ordered(config: DaemonConfig) -> None:
    async def play(stage: Stage) -> None:
        daemon = stage.daemon
        job_id = stage.submit(job_class="malleable", nodes=3, min_nodes=1, max_nodes=5, resilient=True)
        await stage.until(lambda: daemon.snapshot().job(job_id).state == "running")
        job = await stage.play(job_id)
        own = daemon.snapshot().job(job_id).nodes
        await job.say(wire.Ready(nodes=own))
        await stage.until(lambda: daemon.room_for_lent == 2)
        daemon.tell_loans(lambda: "2 loans so far")
        daemon.lend(("x",), "lent by others")
        grow = await job.hear()
        assert isinstance(grow, wire.Grow)
        assert grow.nodes == ("x",)
        await job.say(wire.Outcome(order=grow.order, kind="grow", outcome="done", nodes=grow.nodes))
        await stage.until(lambda: len(daemon.snapshot().job(job_id).nodes) == 4)
        assert "x: lent by others" in daemon.explain(job_id).text
        assert daemon.snapshot().loans == "2 loans so far"
        # an order that the job puts off is taken back when the others want their node
        daemon.lend(("y",), "lent by others")
        grow = await job.hear()
        assert isinstance(grow, wire.Grow)
        await job.say(wire.Deferred(order=grow.order, reason="final reduction"))
        daemon.recall("x", "they want it")
        assert await job.hear() == wire.Withdraw(order=grow.order)
        assert {node.name: node.reason for node in daemon.snapshot().nodes}["x"] == (
            "is to leave the cluster: they want it"
        )
        await job.say(wire.Outcome(order=grow.order, kind="grow", outcome="aborted", reason="withdrawn"))
        shrink = await job.hear()
        assert isinstance(shrink, wire.Shrink)
        assert shrink.nodes == ("x",)
        await job.say(wire.Outcome(order=shrink.order, kind="shrink", outcome="done", nodes=("x",)))
        await stage.until(lambda: "x" not in daemon.nodes)
        assert daemon.snapshot().job(job_id).nodes == (*own, "y"), "it is ordered to use that one again"

    perform(config, play)
