"""Job scripts of the published system."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_bridge.daemon.v1 import MAX_BYTES, ScriptError, parse_script, read_script

SCRIPT = """#!/bin/sh
#JOB_TYPE APGAS
#JOB_CLASS malleable
#JOB_NAME UTS large
#REQUIRED_TIME 90000
#MIN_NODES 2
#MAX_NODES 8
# a comment
java -jar uts.jar
"""
PATH = Path("/jobs/uts.sh")


def test_a_malleable_script() -> None:
    job = parse_script(SCRIPT, PATH)
    assert (job.name, job.job_class, job.bounds(), job.walltime_s) == ("UTS large", "malleable", (2, 2, 8), 90.0)
    assert (job.command, job.cwd, job.protocol) == (("/bin/sh", "/jobs/uts.sh"), "/jobs", "v1")
    assert job.environment == {"SCRIPT_DIR": "/jobs", "ELASTIC": "malleable"}


@pytest.mark.parametrize(
    ("first", "words"),
    [
        ("#!/bin/bash", ("/bin/bash",)),
        ("#! /bin/bash \r", ("/bin/bash",)),
        ("#!/usr/bin/env -S bash -e", ("/usr/bin/env", "-S bash -e")),
        ("#!", ("/bin/sh",)),
        ("echo hello", ("/bin/sh",)),
        ("", ("/bin/sh",)),
    ],
)
def test_the_first_line_says_what_runs_a_script(first: str, words: tuple[str, ...]) -> None:
    assert parse_script(f"{first}\n#NODES 2\n", PATH).command == (*words, "/jobs/uts.sh")


@pytest.mark.parametrize(
    ("headers", "job_class", "bounds"),
    [
        ("", "rigid", (1, 1, 1)),
        ("#NODES 4", "rigid", (4, 4, 4)),
        ("#JOB_CLASS rigid\n# NODES = 4", "rigid", (4, 4, 4)),
        ("#JOB_CLASS evolving\n#MIN_NODES 1\n#MAX_NODES 4\r", "malleable", (1, 1, 4)),
        ("#JOB_CLASS malleable\n#NODES 3\n#MAX_NODES 4", "malleable", (3, 3, 4)),
    ],
)
def test_classes_and_bounds(headers: str, job_class: str, bounds: tuple[int, int, int]) -> None:
    job = parse_script(f"#!/bin/sh\n{headers}\nrun\n", PATH)
    assert (job.name, job.job_class, job.bounds()) == ("uts", job_class, bounds)


@pytest.mark.parametrize(
    ("headers", "why"),
    [
        ("#NODES many", ":2: NODES is 'many', not a number"),
        ("\n#REQUIRED_TIME -5", ":3: REQUIRED_TIME is '-5', not a number"),
        ("#JOB_CLASS moldable", ":2: JOB_CLASS is 'moldable', not one of rigid, malleable, evolving"),
        ("#NODES 0", "Expected `int` >= 1"),
        ("#REQUIRED_TIME 0", "walltime_s"),
        ("#JOB_CLASS malleable\n#MIN_NODES 4\n#MAX_NODES 2", r"max_nodes \(2\) is below min_nodes \(4\)"),
    ],
)
def test_mistakes_are_named(headers: str, why: str) -> None:
    with pytest.raises(ScriptError, match=why) as refused:
        parse_script(f"#!/bin/sh\n{headers}\n", PATH)
    assert str(refused.value).startswith("/jobs/uts.sh:")


def test_what_cannot_be_read_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ScriptError, match="No such file"):
        read_script(tmp_path / "nothing.sh")
    with pytest.raises(ScriptError, match="Is a directory"):
        read_script(tmp_path)
    long = tmp_path / "long.sh"
    long.write_bytes(b"#" * (MAX_BYTES + 1))
    with pytest.raises(ScriptError, match="longer than"):
        read_script(long)


headers = st.sampled_from(
    ["#JOB_CLASS ", "#NODES ", "#MIN_NODES ", "#MAX_NODES ", "#REQUIRED_TIME ", "#JOB_NAME ", "# "]
)
values = st.one_of(st.integers(-5, 10**20).map(str), st.sampled_from(["malleable", "rigid", ""]), st.text(max_size=10))


@given(st.lists(st.tuples(headers, values).map("".join), max_size=8).map("\n".join))
def test_any_script_is_a_job_or_a_mistake(text: str) -> None:
    try:
        job = parse_script(text, PATH)
    except ScriptError:
        return
    low, nodes, high = job.bounds()
    assert 1 <= low <= nodes <= high
    assert job.walltime_s > 0
