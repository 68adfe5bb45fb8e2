"""The pytest plugin, as users meet it."""

from __future__ import annotations

import subprocess
import sys
import tomllib

import pytest
from support import PATIENCE_S, ROOT

PLUGIN = "apgas.testing.pytest_plugin"


def test_the_package_names_the_plugin() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {PLUGIN: PLUGIN}


def test_apgas_needs_no_pytest() -> None:
    code = "import sys, apgas, apgas.testing.job; raise SystemExit('pytest' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False, timeout=PATIENCE_S).returncode == 0


def test_the_fixture_works_in_a_project_of_a_user(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        program="""
            import apgas

            class Handler(apgas.MalleableHandler):
                def preShrink(self, nb_places):
                    return apgas.places()[-nb_places:]
                def postShrink(self, nb_places, removed_places):
                    pass
                def preGrow(self, nb_places):
                    pass
                def postGrow(self, nb_places, continued_places, new_places):
                    pass

            def main(orders):
                apgas.define_malleable_handler(Handler())
                while len(apgas.resizes()) < orders:
                    apgas.at(apgas.places()[-1], str)
                return len(apgas.places())
        """,
        test_program="""
            import time
            import apgas
            import program

            def test_fine(apgas_job):
                job = apgas_job(program.main, 1, places=2)
                job.grow(2)
                assert job.run() == 4

            def test_wrong(apgas_job):
                job = apgas_job(program.main, 1, places=2)
                job.shrink(7)
                assert job.run() == 1

            def hang():
                with apgas.finish():
                    apgas.async_at(apgas.place(1), time.sleep, 30)

            def test_hangs(apgas_job):
                apgas_job(hang, places=2, deadline_s=2).run()
        """,
    )
    result = pytester.runpytest_subprocess("-p", PLUGIN, "-p", "no:cacheprovider")
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(
        [
            "E   *assert 2 == 1",
            "E   *JobHangsError: the program did not end within 2 s",
            "E   *place 0, thread apgas-main:",
            "E   *in hang",
            "E   *place 1, thread *",
            "E   *in sleep",
        ]
    )


def test_the_fixture_is_known_by_name(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest("-p", PLUGIN, "--fixtures")
    result.stdout.fnmatch_lines(["apgas_job*", "*Run malleable programs on simulated places."])


@pytest.mark.parametrize(
    ("example", "document"),
    [("stencil", "tutorials/malleable-program.md"), ("knapsack_bag", "how-to/write-your-own-bag.md")],
)
def test_the_examples_of_the_documentation_run_as_printed(example: str, document: str) -> None:
    test = f"docs/examples/test_{example}.py"
    command = [sys.executable, "-m", "pytest", "-p", PLUGIN, "-q", test]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stdout
    text = (ROOT / "docs" / document).read_text(encoding="utf-8")
    printed = text.split(f"$ pytest -q {test}\n")[1].split("```")[0].splitlines()
    lines = done.stdout.splitlines()
    assert lines[0] == printed[0]
    assert lines[-1].startswith(printed[-1])
