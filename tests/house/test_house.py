"""The counts of `measure.py` do not grow: a bound is raised on purpose or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest
from house import measure


@pytest.fixture(scope="module")
def counts() -> list[measure.Count]:
    return measure.counts()


def test_no_count_is_above_its_bound(counts: list[measure.Count]) -> None:
    above = [f"{count.title}: {count.value}, bound {count.bound}" for count in counts if count.value > count.bound]
    assert not above, "see python tests/house/measure.py -v"


def test_a_call_is_followed_on_both_places(counts: list[measure.Count]) -> None:
    files = next(count.what for count in counts if "async_at" in count.title)
    assert {"apgas/core/finish.py", "apgas/runtime/driver.py", "apgas/transport/wire.py"} <= set(files)


def test_circles_are_found(tmp_path: Path) -> None:
    texts = {
        "p": "",
        "p.a": "from p import b",
        "p.b": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .a import x",
        "p.c": "import p.d",
        "p.d": "def late():\n    import p.c",
        "p.e": "try:\n    from p.f import y\nexcept ImportError:\n    pass",
        "p.f": "from . import e",
    }
    modules = {}
    for name, text in texts.items():
        modules[name] = tmp_path / ("__init__.py" if name == "p" else f"{name}.py")
        modules[name].write_text(text)
    assert measure.circles(measure.import_graph(modules, for_types=False)) == ("p.e p.f",)
    assert measure.circles(measure.import_graph(modules, for_types=True)) == ("p.a p.b", "p.e p.f")
