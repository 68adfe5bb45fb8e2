"""A run on a fake runtime: what is measured, verified, written and said, and the exit code."""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import apgas
from benchmarks.harness import app, run
from benchmarks.harness.cli import CommonOptions
from benchmarks.harness.errors import BadUsage
from benchmarks.harness.measurement import cores
from benchmarks.pi.command import build
from glb.statistics import Statistics

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from benchmarks.harness.cli import Benchmark
    from benchmarks.pi.bag import Hits
    from glb import Bag

SAMPLES = 100_000


@dataclass(frozen=True, order=True)
class FakePlace:
    id: int
    node: str


@dataclass
class FakeRuntime:
    """Places 0 and 1; the computation grows by one if an order says so."""

    members: list[FakePlace] = field(default_factory=lambda: [FakePlace(0, "a"), FakePlace(1, "b")])
    records: list[Any] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    configs: list[Any] = field(default_factory=list)
    lost: int = 0
    error: Exception | None = None

    def apgas(self) -> Any:
        return SimpleNamespace(
            places=lambda: list(self.members),
            place=lambda number: self.members[number],
            here=lambda: self.members[0],
            Sizing=apgas.Sizing,
            gather=self.gather,
            schedule_orders=lambda orders, hosts: self.calls.append(f"orders {orders} on {hosts}"),
            disable_malleable_handler=lambda: self.calls.append("disable"),
            resizes=lambda: self.records,
            progress=lambda done, total, unit: self.calls.append(f"progress {done}/{total} {unit}"),
        )

    def glb(self) -> Any:
        return SimpleNamespace(Config=SimpleNamespace, compute=self.compute)

    def gather(self, fn: Callable[..., Any], *args: Any) -> dict[FakePlace, Any]:
        self.calls.append("everywhere")
        return {place: fn(*args) for place in self.members}

    def compute(self, bag: Any, make_result: Callable[[], Any], config: Any) -> Any:
        self.calls.append("compute")
        self.configs.append(config)
        config.warm_up()
        if self.error is not None:
            raise ExceptionGroup("activities failed", [self.error])
        while bag.process(50_000):
            config.on_progress(bag.work, len(self.members), 2)
        result = make_result()
        bag.submit(result)
        result.hits -= self.lost
        if any(call.startswith("orders") for call in self.calls):
            self.members.append(FakePlace(2, "c"))
            self.records += [
                SimpleNamespace(
                    kind="grow",
                    n=1,
                    at_s=1.0,
                    seconds=0.2,
                    phases={"spawn": 0.1},
                    outcome="done",
                    reason="",
                    nodes=("c",),
                ),
                SimpleNamespace(
                    kind="shrink", n=1, at_s=9.0, seconds=0.0, phases={}, outcome="not_due", reason="ended", nodes=()
                ),
            ]
        statistics = Statistics(tasks=bag.work, steals_won=3, lifeline_deals=2)
        places = {0: Statistics(tasks=bag.work, worst_lag_s=0.2)}
        look = SimpleNamespace(at_s=0.25, nodes=2, efficiency=0.5, wanted=1)
        return SimpleNamespace(
            result=result,
            seconds=0.5,
            statistics=statistics,
            places=places,
            workers=4,
            held=((0.0, 2), (0.3, 3)),
            node_s=1.2,
            looks=[look] if config.target_efficiency is not None else [],
        )


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> FakeRuntime:
    fake = FakeRuntime()
    monkeypatch.setattr(run, "apgas", fake.apgas())
    monkeypatch.setattr(run, "glb", fake.glb())
    return fake


def with_json(tmp_path: Path, **options: Any) -> tuple[CommonOptions, Path]:
    path = tmp_path / "result.json"
    return CommonOptions(json=path, **options), path


def read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text())
    return content


def test_the_json_result_keeps_the_contract(runtime: FakeRuntime, tmp_path: Path) -> None:
    options, path = with_json(tmp_path, verify=True, orders="1:+1,9:-1", hosts="c")
    assert run.run_benchmark(build(SAMPLES, 1), options) == 0
    result = read(path)
    assert result["benchmark"] == "pi"
    assert result["parameters"] == {"samples": SAMPLES, "seed": 1}
    assert result["result"] == pytest.approx(3.14, abs=0.05)
    assert result["verified"] is True
    assert result["seconds"] == 0.5
    [place] = result["places"]
    assert (place["place"], place["node"], place["worst_lag_s"]) == (0, "a", 0.2)
    assert (result["places_start"], result["places_end"]) == (2, 3)
    assert result["workers"] == max(1, cores() // 2)
    assert (result["grows"], result["shrinks"]) == (1, 0)
    assert [resize["outcome"] for resize in result["resizes"]] == ["done", "not_due"]
    assert set(result["resizes"][0]) >= {"kind", "n", "at_s", "seconds", "phases", "outcome", "reason"}
    assert (result["tasks"], result["steals"]) == (SAMPLES, 5)
    provenance = result["provenance"]
    assert set(provenance) >= {"cpu", "mpi", "versions", "commit", "hosts", "seed"}
    assert provenance["hosts"] == ["a", "b", "c"]
    assert provenance["seed"] == 1
    assert (result["node_seconds"], result["held"], result["looks"]) == (1.2, [[0.0, 2], [0.3, 3]], [])


def test_cpu_seconds_are_those_of_the_computation_alone(
    runtime: FakeRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compiling the kernel does not count, nor what checks the result; of repetitions the median does."""
    used_s, compiling_s, computing_s = 0.0, [9.0], [2.0, 4.0, 3.0]
    plain, honest = build(SAMPLES, 1), runtime.compute

    def use(seconds: list[float]) -> None:
        nonlocal used_s
        used_s += seconds.pop() if seconds else 0.0

    def compute(*arguments: Any) -> Any:
        use(computing_s)
        return honest(*arguments)

    def expected() -> object:
        use([70.0])
        return plain.expected()

    monkeypatch.setattr(time, "process_time", lambda: used_s)
    run.glb.compute = compute  # type: ignore[attr-defined]  # a stand-in
    options, path = with_json(tmp_path, repeat=3, verify=True)
    assert run.run_benchmark(replace(plain, warm_up=lambda: use(compiling_s), expected=expected), options) == 0
    assert read(path)["cpu_s"] == 3.0


def test_a_job_that_sizes_itself_says_how(
    runtime: FakeRuntime, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options, path = with_json(tmp_path, target_efficiency=0.9, max_nodes=5, hosts="c,d", quiet=False)
    assert run.run_benchmark(build(SAMPLES, 1), options) == 0
    sizing = runtime.configs[-1].target_efficiency
    assert (sizing.target, sizing.max_nodes, sizing.hosts) == (0.9, 5, ("c", "d"))
    assert read(path)["looks"] == [[0.25, 2, 0.5, 1]]
    assert "1.2 node-seconds on 2 to 3 nodes, 50% busy" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"target_efficiency": 1.0}, "--target-efficiency 1"),
        ({"target_efficiency": 0.9, "max_nodes": 0}, "--max-nodes 0"),
        ({"max_nodes": 3}, "does not ask for nodes"),
    ],
)
def test_what_no_job_can_hold_is_refused(options: dict[str, Any], why: str) -> None:
    with pytest.raises(BadUsage) as refused:
        CommonOptions(**options).check()
    assert why in f"{refused.value.culprit}: {refused.value.why}"


def test_the_start_is_reported_where_the_system_knows_it(
    runtime: FakeRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options, path = with_json(tmp_path)
    monkeypatch.setattr(run, "age_s", lambda: 1.5)
    assert run.run_benchmark(build(SAMPLES, 1), options) == 0
    startup = read(path)["startup"]
    assert startup["runtime_s"] == 1.5
    assert startup["balancer_s"] >= 0
    monkeypatch.setattr(run, "age_s", lambda: None)
    assert run.run_benchmark(build(SAMPLES, 1), options) == 0
    assert read(path)["startup"] == {}


def test_a_bag_gets_the_rate_to_which_workers_are_held(runtime: FakeRuntime, tmp_path: Path) -> None:
    rates: list[float | None] = []
    plain = build(SAMPLES, 1)

    def make_bag(rate: float | None) -> Bag[Hits]:
        rates.append(rate)
        return plain.make_bag(rate)

    benchmark = replace(plain, make_bag=make_bag)
    assert run.run_benchmark(benchmark, with_json(tmp_path, rate=5e6, repeat=2)[0]) == 0
    assert run.run_benchmark(benchmark, with_json(tmp_path)[0]) == 0
    assert rates == [5e6, 5e6, None]


@pytest.mark.parametrize("workers", [None, 2])
def test_every_place_is_warm_before_the_computation_and_the_orders(runtime: FakeRuntime, workers: int | None) -> None:
    run.run_benchmark(build(SAMPLES, 1), CommonOptions(orders="1:+1", workers=workers, quiet=True))
    assert runtime.calls[:3] == ["everywhere", "compute", "orders 1:+1 on ()"]
    assert runtime.calls[-1] == "disable"
    assert f"progress 53248/{SAMPLES} samples" in runtime.calls


def test_the_clock_of_the_orders_starts_with_the_first_repetition_only(runtime: FakeRuntime) -> None:
    run.run_benchmark(build(SAMPLES, 1), CommonOptions(orders="1:+1", repeat=3, quiet=True))
    assert [call for call in runtime.calls if not call.startswith("progress")] == [
        "everywhere",
        "compute",
        "orders 1:+1 on ()",
        "compute",
        "compute",
        "disable",
    ]


def test_only_place_0_gives_orders(runtime: FakeRuntime) -> None:
    runtime.members = [FakePlace(1, "b")]
    run._begin(runtime.calls.clear, "1:+1", ())
    assert runtime.calls == []


def test_a_wrong_result_fails_and_is_written(
    runtime: FakeRuntime, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runtime.lost = 1
    options, path = with_json(tmp_path, verify=True)
    assert run.run_benchmark(build(SAMPLES, 1), options) == 1
    assert read(path)["verified"] is False
    assert "wrong result" in capsys.readouterr().err


def test_a_known_value_is_compared_without_being_asked(runtime: FakeRuntime, tmp_path: Path) -> None:
    options, path = with_json(tmp_path)
    assert run.run_benchmark(build(1_000_000, 1), options) == 0
    assert read(path)["verified"] is True
    runtime.lost = 1
    assert run.run_benchmark(build(1_000_000, 1), options) == 1


def test_an_unknown_value_is_not_verified_unless_asked(runtime: FakeRuntime, tmp_path: Path) -> None:
    options, path = with_json(tmp_path)
    assert run.run_benchmark(build(SAMPLES, 1), options) == 0
    assert read(path)["verified"] is None


def test_one_wrong_repetition_is_enough(runtime: FakeRuntime, tmp_path: Path) -> None:
    options, path = with_json(tmp_path, repeat=3, verify=True)
    outcomes = iter((0, 1, 0))
    honest = runtime.compute

    def sometimes(*arguments: Any) -> Any:
        runtime.lost = next(outcomes)
        return honest(*arguments)

    run.glb.compute = sometimes  # type: ignore[attr-defined]  # a stand-in
    assert run.run_benchmark(build(SAMPLES, 1), options) == 1
    assert read(path)["verified"] is False
    assert len(read(path)["runs_s"]) == 3


def test_a_benchmark_may_verify_and_publish_itself(
    runtime: FakeRuntime, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options, path = with_json(tmp_path, verify=True)
    judged = [(True, "its own means"), (False, "2 is not 3")]
    own = replace(build(SAMPLES, 1), verify=lambda _: judged.pop(0), publish=lambda _: [("more", "to say")])
    assert run.run_benchmark(own, options) == 0
    assert read(path)["verified"] is True
    output = capsys.readouterr().out
    assert "yes, against its own means" in output
    assert "to say" in output
    assert run.run_benchmark(own, options) == 1
    assert read(path)["verified"] is False
    assert "2 is not 3" in capsys.readouterr().err


def test_repetitions_that_differ_are_wrong_whatever_the_benchmark_finds(runtime: FakeRuntime, tmp_path: Path) -> None:
    options, path = with_json(tmp_path, repeat=2, verify=True)
    outcomes = iter((1, 0))
    honest = runtime.compute

    def sometimes(*arguments: Any) -> Any:
        runtime.lost = next(outcomes)
        return honest(*arguments)

    run.glb.compute = sometimes  # type: ignore[attr-defined]  # a stand-in
    assert run.run_benchmark(replace(build(SAMPLES, 1), verify=lambda _: (True, "it")), options) == 1
    assert read(path)["verified"] is False


def test_a_failure_is_reported_in_three_lines_and_in_the_file(
    runtime: FakeRuntime, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runtime.error = ValueError("the dog ate it")
    options, path = with_json(tmp_path)
    assert run.run_benchmark(build(SAMPLES, 1), options) == 1
    assert read(path)["error"] == "ValueError: the dog ate it"
    assert capsys.readouterr().err.splitlines() == [
        "pi, samples 100000, seed 1: warming up 2 places",
        "pi failed",
        "ValueError: the dog ate it",
        "add --debug for the traceback",
    ]
    run.run_benchmark(build(SAMPLES, 1), replace(options, debug=True))
    assert "Traceback" in capsys.readouterr().err


def test_nothing_is_computed_if_the_result_cannot_be_written(runtime: FakeRuntime, tmp_path: Path) -> None:
    with pytest.raises(BadUsage, match="--json"):
        run.run_benchmark(build(SAMPLES, 1), CommonOptions(json=tmp_path / "missing" / "result.json"))
    assert not runtime.calls


def test_the_table_tells_places_rate_steals_and_resizes(
    runtime: FakeRuntime, capsys: pytest.CaptureFixture[str]
) -> None:
    run.run_benchmark(build(SAMPLES, 1), CommonOptions(orders="1:+1,9:-1"))
    output = capsys.readouterr().out
    assert "\x1b" not in output
    for part in (
        "2 -> 3",
        "0.500 s",
        "200 k samples/s (two points per Philox counter)",
        "+1 at 1.0 s: 200 ms",
        "not due",
    ):
        assert part in output


def test_quiet_leaves_one_line(runtime: FakeRuntime, capsys: pytest.CaptureFixture[str]) -> None:
    run.run_benchmark(build(1_000_000, 1), CommonOptions(quiet=True))
    captured = capsys.readouterr()
    assert captured.out == "pi (samples 1000000, seed 1): 3.141712\n"
    assert captured.err == ""


def test_settings_reach_the_balancer(runtime: FakeRuntime) -> None:
    benchmark: Benchmark[Any] = build(SAMPLES, 1)
    run.run_benchmark(benchmark, CommonOptions(workers=3, granularity=7, rate=1e6, quiet=True))
    config = runtime.configs[-1]
    assert (config.workers, config.granularity, config.rate, config.static) == (3, 7, 1e6, True)
    run.run_benchmark(benchmark, CommonOptions(rate=1e6, quiet=True))
    assert runtime.configs[-1].granularity == 20_000, "calls must be short where the rate is limited"
    run.run_benchmark(benchmark, CommonOptions(quiet=True))
    assert runtime.configs[-1].granularity == benchmark.default_granularity


def test_bad_usage_ends_with_2(runtime: FakeRuntime, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        app.start("benchmarks.pi.command", ["--workers", "0"])
    assert caught.value.code == 2
    assert capsys.readouterr().err.splitlines()[0] == "--workers 0"
    assert not runtime.calls


def test_a_fine_run_returns(runtime: FakeRuntime) -> None:
    app.start("benchmarks.pi.command", ["--samples", "1e5", "--quiet"])
    assert "compute" in runtime.calls


@pytest.mark.parametrize(("rank", "speaks"), [("0", True), ("1", False)])
def test_help_is_printed_once_and_starts_nothing(
    rank: str, speaks: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PMI_RANK", rank)
    monkeypatch.setattr(sys, "argv", ["pi", "--samples", "1", "--help"])
    monkeypatch.setitem(sys.modules, "apgas", None)
    with pytest.raises(SystemExit) as caught:
        app.main("benchmarks.pi.command")
    assert caught.value.code == 0
    output = capsys.readouterr().out
    assert ("Estimate Pi" in output) is speaks
    assert ("Example: mpiexec -n 4 python -m benchmarks.pi" in output) is speaks


def test_a_benchmark_needs_no_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    began: list[object] = []
    monkeypatch.setattr(sys, "argv", ["pi"])
    monkeypatch.setitem(sys.modules, "apgas", SimpleNamespace(run=lambda *what: began.append(what[1:])))
    app.main("benchmarks.pi.command")
    assert began == [("benchmarks.pi.command", [])]


@pytest.mark.parametrize("form", [["--on-scheduler-loss", "reconnect:5"], ["--on-scheduler-loss=reconnect:5"]])
def test_the_runtime_hears_of_scheduler_loss_before_it_connects(
    form: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[str | None] = []
    monkeypatch.setenv("APGAS_ON_SCHEDULER_LOSS", "")
    monkeypatch.setattr(sys, "argv", ["pi", *form])
    fake = SimpleNamespace(run=lambda *_: heard.append(os.environ.get("APGAS_ON_SCHEDULER_LOSS")))
    monkeypatch.setitem(sys.modules, "apgas", fake)
    app.main("benchmarks.pi.command")
    assert heard == ["reconnect:5"]
