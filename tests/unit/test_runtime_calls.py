"""Functions that travel once: what may be sent by number, and what has to be sent anew."""

from __future__ import annotations

import functools
import logging
import os
import pickle
import sys
import types
from collections.abc import Callable
from typing import Any

import pytest

from apgas.errors import ProtocolError
from apgas.runtime.driver import INLINE_S, InlinePolicy
from apgas.runtime.serialization import MOST_VERSIONS, Calls


class Pair:
    """Two places' ends of one connection."""

    def __init__(self) -> None:
        self.sender, self.receiver = Calls(), Calls()
        self.sent_bytes: list[int] = []

    def call(self, fn: Callable[..., Any], *args: object) -> Any:
        payload, definition = self.sender.pack(1, (fn, args, {}))
        self.sender.sent(1, definition)
        self.sent_bytes.append(sum(map(len, payload)))
        found, found_args, kwargs = self.receiver.arrived(0, payload)()
        return found(*found_args, **kwargs)


def program(source: str) -> dict[str, Any]:
    """The variables of a main program."""
    variables: dict[str, Any] = {"__name__": "__main__"}
    exec(source, variables)
    return variables


def test_a_function_travels_once() -> None:
    text = "x" * 2000
    main = program(
        f"factor = 3\ndef helper(x):\n    return x * factor\ndef f(x):\n    '''{text}'''\n    return helper(x) + 1"
    )
    pair = Pair()
    assert [pair.call(main["f"], number) for number in range(3)] == [1, 4, 7]
    assert pair.sent_bytes[0] > 2000
    assert max(pair.sent_bytes[1:]) < 100


def test_present_values_travel() -> None:
    main = program("factor = 3\ndef helper(x):\n    return x * factor\ndef f(x):\n    return helper(x)")
    pair = Pair()
    assert pair.call(main["f"], 2) == 6
    main["factor"] = 10
    assert pair.call(main["f"], 2) == 20
    exec("def helper(x):\n    return -x", main)
    assert pair.call(main["f"], 2) == -2


@pytest.mark.parametrize(
    "source",
    [
        "count = 0\ndef f():\n    global count\n    count += 1\n    return count",
        "seen = []\ndef f():\n    seen.append(1)\n    return len(seen)",
        "def f(seen=[]):\n    seen.append(1)\n    return len(seen)",
        "def f():\n    f.n = getattr(f, 'n', 0) + 1\n    return 1\nf.seen = []",
        "def g():\n    n = []\n    def f():\n        n.append(1)\n        return len(n)\n    return f\nf = g()",
        "def f():\n    def g():\n        global count\n        count = 1\n    return g() or 1",
    ],
    ids=["assigns", "list", "default", "attribute", "closure", "inner"],
)
def test_what_a_call_leaves_behind_is_not_kept(source: str) -> None:
    main = program(source)
    pair = Pair()
    assert [pair.call(main["f"]) for _ in range(3)] == [1, 1, 1]


def test_a_function_that_changes_often_travels_in_full() -> None:
    main = program("factor = 0\ndef f():\n    return factor")
    pair = Pair()
    for factor in range(3 * MOST_VERSIONS):
        main["factor"] = factor + 1000
        assert pair.call(main["f"]) == factor + 1000
    assert len(pair.receiver._received) == MOST_VERSIONS


def test_functions_with_names_need_no_definition() -> None:
    pair = Pair()
    assert pair.call(os.path.join, "a", "b") == "a/b"
    assert pair.call(functools.partial(max, 3), 2) == 3
    assert not pair.receiver._received


def test_main_classes_and_cached_functions_still_travel() -> None:
    main = program(
        "import functools\nclass Point:\n    def __init__(self, x):\n        self.x = x\n"
        "    def double(self):\n        return 2 * self.x\ndef f(point):\n    return point.double()"
    )
    pair = Pair()
    assert pair.call(main["f"], main["Point"](4)) == 8
    assert pair.call(main["Point"](5).double) == 10


def test_a_registered_module_travels_by_value(monkeypatch: pytest.MonkeyPatch) -> None:
    import cloudpickle

    module = types.ModuleType("only_here")
    exec("def f():\n    return 7\nclass C:\n    pass", vars(module))
    monkeypatch.setitem(sys.modules, "only_here", module)
    cloudpickle.register_pickle_by_value(module)
    try:
        payload, _ = Calls().pack(1, (module.f, (module.C,), {}))
    finally:
        cloudpickle.unregister_pickle_by_value(module)
    monkeypatch.delitem(sys.modules, "only_here")
    found, (cls,), _ = Calls().arrived(0, payload)()
    assert found() == 7
    assert cls.__name__ == "C"


def test_each_place_is_sent_its_own_definition() -> None:
    main = program("def f():\n    return 5")
    sender = Calls()
    for place in (1, 2, 1):
        payload, definition = sender.pack(place, (main["f"], (), {}))
        assert (definition is not None) == (place == 2 or payload[0][0] == 2)
        sender.sent(place, definition)
    assert sender.pack(2, (main["f"], (), {}))[1] is None
    sender.forget(2)
    assert sender.pack(2, (main["f"], (), {}))[1] is not None


def test_a_definition_that_was_not_sent_is_sent_again() -> None:
    main = program("def f():\n    return 5")
    sender = Calls()
    assert sender.pack(1, (main["f"], (), {}))[1] is not None
    assert sender.pack(1, (main["f"], (), {}))[1] is not None


def test_unpicklable_calls_say_what() -> None:
    main = program("import threading\nlock = threading.Lock()\ndef f():\n    return lock")
    with pytest.raises(TypeError, match="cannot send"):
        Calls().pack(1, (main["f"], (), {}))


@pytest.mark.parametrize(
    "payload", [[], [b"x"], [b"\x01\x00\x00\x00\x05rest"], [b"\x02\x00\x00\x00\x05rest"], [b"\x09\0\0\0\0"]]
)
def test_nonsense_is_refused(payload: list[bytes]) -> None:
    with pytest.raises(ProtocolError):
        Calls().arrived(3, payload)


def test_what_arrived_from_a_place_that_left_can_still_run() -> None:
    main = program("def f():\n    return 5")
    pair = Pair()
    pair.call(main["f"])
    payload, _ = pair.sender.pack(1, (main["f"], (), {}))
    load = pair.receiver.arrived(0, payload)
    pair.receiver.forget(0)
    assert load()[0]() == 5


def test_quick_functions_are_known_by_experience() -> None:
    policy = InlinePolicy()

    def f() -> None:
        """Do nothing."""

    assert not policy.expects(f)
    for _ in range(2):
        policy.learn(f, INLINE_S / 2)
    assert policy.expects(f)
    assert policy.expects(types.FunctionType(f.__code__, {}))
    policy.learn(f, INLINE_S * 2)
    assert not policy.expects(f)
    for _ in range(9):
        policy.learn(f, INLINE_S / 2)
    assert policy.expects(f)


def test_odd_callables_are_never_quick() -> None:
    policy = InlinePolicy()
    call = functools.partial(print)
    for _ in range(5):
        policy.learn(call, 0.0)
        policy.learn(len, 0.0)
    assert not policy.expects(call)
    assert policy.expects(len)


def test_loggers_and_modules_do_not_matter_to_pickle() -> None:
    # a function that refers to a logger travels in full, and works
    main = program("import logging\nlog = logging.getLogger('x')\ndef f():\n    return log.name")
    pair = Pair()
    assert [pair.call(main["f"]) for _ in range(2)] == ["x", "x"]
    assert pickle.loads(pickle.dumps(logging.getLogger("x"))) is logging.getLogger("x")
