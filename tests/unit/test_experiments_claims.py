"""The claims of all papers: what they name is there, and nothing in a file of them is misspelled."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("matplotlib", reason="matplotlib is not installed")

from scheduler_bridge.experiments import study
from scheduler_bridge.experiments.mebf import cells as mebf
from scheduler_bridge.experiments.mebf.study import CLAIMS as MEBF
from scheduler_bridge.experiments.mebf.study import EVENTS, EXPAND_SIZES
from scheduler_bridge.experiments.merit import MEASURES
from scheduler_bridge.experiments.penalty import cells as penalty
from scheduler_bridge.experiments.penalty.study import CLAIMS as PENALTY
from scheduler_bridge.experiments.published_runs.cells import COMPAT, SHARES
from scheduler_bridge.experiments.published_runs.study import CLAIMS as PUBLISHED
from scheduler_bridge.experiments.real_workloads import cells as real_workloads
from scheduler_bridge.experiments.real_workloads.study import CLAIMS as REAL_WORKLOADS
from scheduler_bridge.experiments.sd_policy import cells as sd_policy
from scheduler_bridge.experiments.sd_policy.study import CLAIMS as SD_POLICY
from scheduler_bridge.experiments.sd_real.study import MEASURES as SHARED_MEASURES
from scheduler_bridge.experiments.study import Claim, several
from scheduler_bridge.workloads.generate.papers import PENALTY_SCENARIOS

MEBF_CELLS = mebf.cells((1,))
STRATEGIES = (*real_workloads.STRATEGIES, "best", "worst", "rigid")
ALL: dict[str, tuple[list[Claim], Mapping[str, Collection[object]]]] = {
    "mebf": (
        MEBF["claim"],
        {
            "workload": {cell.trace for cell in MEBF_CELLS},
            "policy": {cell.policy for cell in MEBF_CELLS},
            "share": {cell.share for cell in MEBF_CELLS},
            "measure": mebf.COLUMNS,
            "part": (*EVENTS, *EXPAND_SIZES),
            "hours": (*mebf.HOURS, mebf.HOURS[-1] + mebf.STEP_H),
        },
    ),
    "penalty": (PENALTY["claim"], {"workload": PENALTY_SCENARIOS, "measure": penalty.COLUMNS}),
    "published-runs": (
        PUBLISHED["claim"],
        {"policy": COMPAT, "share": SHARES, "measure": (*MEASURES, "grows_per_job", "shrinks_per_job")},
    ),
    "real-workloads": (
        REAL_WORKLOADS["claim"],
        {
            "workload": REAL_WORKLOADS["rigid"],
            "policy": STRATEGIES,
            "share": (*real_workloads.SHARES["full"], "any"),
            "measure": real_workloads.COLUMNS,
        },
    ),
    "sd-policy": (
        SD_POLICY["claim"],
        {
            "workload": {int(number) for number in SD_POLICY["printed"]},
            "policy": (sd_policy.STATIC, *sd_policy.LIMITS, sd_policy.named("dynamic", "worst"), "best"),
            "measure": (*sd_policy.COLUMNS, "wait"),
        },
    ),
    "sd-real": (SD_POLICY["real"], {"measure": SHARED_MEASURES}),
}
"""The claims of each study, and what it knows of what they name."""


def _named(claim: Claim, axis: str) -> Iterator[object]:
    """What a claim names, also of what it is compared with; sums by their parts."""
    for one in (claim, claim.get("than", {})):
        for value in several(one[axis]) if axis in one else ():
            yield from value.split(" + ") if isinstance(value, str) else (value,)


@pytest.mark.parametrize("name", ALL)
def test_what_claims_name_is_there(name: str) -> None:
    claims, known = ALL[name]
    assert claims
    for claim in claims:
        for axis, values in known.items():
            for value in _named(claim, axis):
                assert value in values, (claim["text"], axis)
        if "of" in claim:
            assert claim["of"] in ("mean", "change", "distance")
        if claim["rule"] in ("first", "fewest"):
            assert claim[claim.get("axis", "policy")] in claim["among"], claim["text"]


@pytest.mark.parametrize(
    ("name", "axis", "values"),
    [
        ("mebf", "among", (mebf.EBF, *mebf.EXPANDS)),
        ("mebf", "policy", mebf.EXPANDS),
        ("published-runs", "among", COMPAT),
        ("real-workloads", "among", real_workloads.STRATEGIES),
        ("real-workloads", "share", real_workloads.SHARES["full"]),
        ("sd-policy", "among", (sd_policy.STATIC, *sd_policy.LIMITS)),
    ],
)
def test_what_is_usual_is_all_that_the_study_has(name: str, axis: str, values: Iterable[object]) -> None:
    """The longest list: a claim may name fewer."""
    listed = [several(claim[axis]) for claim in ALL[name][0] if axis in claim]
    assert max(listed, key=len) == list(values)


SAID = {
    "workload", "policy", "share", "measure", "rule", "text", "where", "than", "printed", "still", "among", "axis",
    "of", "highest", "form",
}  # fmt: skip
"""All that a claim may say, whatever the study."""
OWN = {"mebf": {"hours", "part"}, "real-workloads": {"below"}}
"""What only claims of one study say."""


@pytest.mark.parametrize("name", ALL)
def test_claims_say_what_the_language_has(name: str) -> None:
    for claim in ALL[name][0]:
        assert claim.keys() <= SAID | OWN.get(name, set()), claim["text"]
        assert claim.get("than", {}).keys() <= {"workload", "policy", "share", "measure"}, claim["text"]


@pytest.mark.parametrize("found", [MEBF, PENALTY, PUBLISHED, REAL_WORKLOADS, SD_POLICY])
def test_a_file_of_claims_has_no_other_tables(found: dict[str, Any]) -> None:
    assert found.keys() <= {"usual", "claim", "real", "printed", "rigid"}


def _claims_of(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    (folder / "claims.toml").write_text(text)
    monkeypatch.setattr(study, "files", lambda _: folder)
    return study.claims_file("a package")


ONE = '[[claim]]\nrule = "change"\ntext = "falls"\npolicy = "a"\n'


@pytest.mark.parametrize(
    "text",
    [
        f"{ONE}columns = ['share', 'measure']\nrows = [[20, 'wait'], [40]]\n",
        f"{ONE}rows = [[20]]\n",
        f"{ONE}columns = ['share']\nrwos = [[20]]\n",
    ],
)
def test_a_row_has_a_value_for_each_column(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="argument 2"):
        _claims_of(text, tmp_path, monkeypatch)


def test_what_is_usual_is_what_a_claim_leaves_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"[usual]\nshare = 20\npolicy = 'b'\n{ONE}hours = [0, 4]\n[[real]]\n{ONE[10:]}"
    found = _claims_of(text, tmp_path, monkeypatch)
    (claim,), (real,) = found["claim"], found["real"]
    assert claim == {"rule": "change", "text": "falls", "policy": "a", "share": 20, "hours": [0, 4]}
    assert "share" not in real


def test_the_rows_of_an_entry_have_all_of_it_in_common(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"[usual]\nshare = 20\n{ONE}columns = ['share', 'measure']\nrows = [[40, 'wait'], [60, 'runtime']]\n"
    once = {"rule": "change", "text": "falls", "policy": "a"}
    assert _claims_of(text, tmp_path, monkeypatch)["claim"] == [
        once | {"share": 40, "measure": "wait"},
        once | {"share": 60, "measure": "runtime"},
    ]
