"""The command line as a whole: what it loads, what its help says, and what every command refuses."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import PATIENCE_S

from scheduler_bridge.cli.app import COMMANDS, load, run

MOST_MODULES = 25
"""Of the project, for what concerns no command; five are loaded now."""


@pytest.mark.parametrize("words", [["--version"], ["--help"], ["no-such-command"]])
def test_what_concerns_no_command_loads_none(words: list[str]) -> None:
    code = f"from scheduler_bridge.cli.app import run; run({words})\nimport sys"
    code += "; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    loaded = done.stdout.splitlines()[-1].split()
    ours = [name for name in loaded if name.split(".")[0] in ("apgas", "glb", "benchmarks", "scheduler_bridge")]
    assert "scheduler_bridge.cli.app" in ours
    assert len(ours) <= MOST_MODULES, ours


def test_an_experiment_loads_no_other_one(tmp_path: Path) -> None:
    words = ["experiment", "mebf", "--places", "1", "--report-only", "--out", str(tmp_path)]
    code = f"from scheduler_bridge.cli.app import run; assert run({words}) == 2\nimport sys"
    code += "; print(*{name.split('.')[2] for name in sys.modules if name.count('.') == 3 and '.experiments.' in name})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    assert done.stdout.split() == ["mebf"], done.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_lists_a_command_as_the_command_describes_itself(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = load(name)
    assert COMMANDS[name].help == " ".join(command.help.split("\n\n")[0].split())
    assert run([name, "--help"]) == 0
    assert f"malleable {name} " in capsys.readouterr().out


def test_the_help_lists_all_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    lines = [line.strip("\u2502 ").split("  ")[0] for line in capsys.readouterr().out.splitlines()]
    assert set(COMMANDS) <= set(lines)


def test_a_command_that_there_is_not_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["qeue"]) == 2
    assert "No such command 'qeue'. Did you mean 'queue'?" in capsys.readouterr().err


def leaves(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """All commands that do something, with the words that call them."""
    below = getattr(command, "commands", None)
    if below is None:
        yield words, command
        return
    for name, one in below.items():
        yield from leaves(one, (*words, name))


def test_what_takes_more_memory_than_there_is_is_no_mistake_of_ours(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["workload", "generate", "lublin", "--set", f"jobs={10**14}"]) == 1
    what, _, hint = capsys.readouterr().err.splitlines()
    assert (what, hint) == ("there is not enough memory", "ask for less")


def test_an_option_that_takes_one_value_is_taken_once(capsys: pytest.CaptureFixture[str]) -> None:
    seen = 0
    for words, command in (leaf for name in COMMANDS for leaf in leaves(load(name), (name,))):
        for option in command.params:
            if option.param_type_name != "option" or option.multiple or option.is_flag:
                continue
            names = (option.opts * 2)[:2]  # by both of its names, if it has two
            assert run([*words, names[0], "1", names[1], "1"]) == 2
            assert f"{' or '.join(option.opts)}: given 2 times\n" in capsys.readouterr().err, f"{words} {option.opts}"
            seen += 1
    assert seen > 100
    assert run(["simulate", "--workload", "none", "--policy", "easy", "--moldable", "--no-moldable"]) == 2
    assert "--moldable or --no-moldable: given 2 times" in capsys.readouterr().err


NUMBERS = [
    (words, command, option)
    for name in COMMANDS
    for words, command in leaves(load(name), (name,))
    for option in command.params
    if option.type.name.startswith("float")
]


@pytest.mark.parametrize(
    ("words", "command", "option"), NUMBERS, ids=[f"{' '.join(w)} {o.name}" for w, _, o in NUMBERS]
)
def test_a_number_that_nothing_can_be_computed_with_is_refused(
    words: tuple[str, ...], command: Any, option: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    name, most = option.opts[0], getattr(option.type, "max", None) or 1e15
    needed = [each for each in command.params if each.required]
    rest = [word for each in needed for word in (*each.opts[:1] * (each.param_type_name == "option"), "1")]
    assert run([*words, name, "nan", *rest]) == 2
    assert capsys.readouterr().err == f"{name} nan: not finite\ngive a number of at most {most:,.16g}\n"
    for wild in ("inf", "1e300"):
        assert run([*words, name, wild, *rest]) == 2
        said = capsys.readouterr().err
        assert name in said, said
        assert f"{most:.16g}" in said.replace(",", ""), said
