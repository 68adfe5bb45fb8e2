"""What a benchmark tells the harness about itself."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from glb.bag import Bag, Result

R = TypeVar("R", bound="Result")


@dataclass(frozen=True)
class Benchmark(Generic[R]):
    """One problem instance, ready to be computed.

    Attributes:
        name: Short name, as in ``python -m benchmarks.<name>``.
        parameters: The instance, as it appears in the JSON result; ``seed``, if present, also goes to the provenance.
        make_bag: Builds the bag that holds all tasks; called on place 0, once per repetition, with the tasks per second
            to which workers are held, or None.
        make_result: Builds the neutral result; picklable (a class or a module-level function).
        value: Turns the folded result into the JSON ``result``.
        expected: The known value, or the value of a sequential run; None where neither is available. It may be slow:
            the harness calls it only when the user asks to verify, unless ``known`` answers.
        unit: What ``tasks`` counts, in the plural: "nodes", "solutions", "sources", "samples".
        static: Whether the bag starts divided over all places (it then has ``partition``).
        default_granularity: Tasks per call of ``process`` unless the user sets it; None: GLB tunes it.
        warm_up: Compiles or loads the kernel on the place where it runs; picklable, it is sent to every place.
        agrees: Compares ``value`` with what is expected.
        known: The expected value where it is recorded, without any computation; None otherwise.
        rule: What a rate in ``unit`` per second counts, for the summary ("last level counted, not hashed").
        noun: What the result counts, where it is a whole number: "nodes", "solutions".
        verify: Checks a result by other means than a sequential run; returns whether it is right, and what it was
            checked against or what is wrong. Called when the user asks to verify and ``known`` has no answer.
        publish: Called with the result on place 0 at the end; may write files; returns more lines for the summary.
    """

    name: str
    parameters: Mapping[str, object]
    make_bag: Callable[[float | None], Bag[R]]
    make_result: Callable[[], R]
    value: Callable[[R], object]
    expected: Callable[[], object | None]
    unit: str
    static: bool
    default_granularity: int | None
    warm_up: Callable[[], None]
    agrees: Callable[[object, object], bool] = operator.eq
    known: Callable[[], object | None] = lambda: None
    rule: str = ""
    noun: str = ""
    verify: Callable[[R], tuple[bool, str]] | None = None
    publish: Callable[[R], Sequence[tuple[str, str]]] = lambda _: ()
