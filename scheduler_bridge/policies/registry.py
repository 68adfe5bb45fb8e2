"""Policies by name."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, TypeAlias, overload

import msgspec

from scheduler_bridge.policies.base import Policy
from scheduler_bridge.policies.mistakes import MISTAKES, PolicyError


class UnknownPolicyError(ValueError):
    """No policy has that name, or the policy has no such parameter; the text lists what there is."""


class InvalidParameterError(UnknownPolicyError):
    """A parameter of a policy has a value that it cannot have; the text lists what it can."""


class PolicyInfo(msgspec.Struct, frozen=True):
    """What a policy is.

    Attributes:
        parameters: The defaults of its parameters.
        pass_interval_s: How often it is meant to decide, besides at events; None: at events only.
        cooldown_s: How long it is meant to leave a job alone after a resize.
    """

    name: str
    summary: str
    description: str
    source: str
    parameters: dict[str, object]
    pass_interval_s: float | None = None
    cooldown_s: float = 0.0


Factory: TypeAlias = Callable[..., Policy]


_FACTORIES: dict[str, tuple[Factory, PolicyInfo]] = {}


@overload
def register(factory: Factory) -> Factory: ...


@overload
def register(*, pass_interval_s: float | None = None, cooldown_s: float = 0.0) -> Callable[[Factory], Factory]: ...


def register(
    factory: Factory | None = None, *, pass_interval_s: float | None = None, cooldown_s: float = 0.0
) -> Factory | Callable[[Factory], Factory]:
    """Register a function that makes a policy under the function's name (``keep_pref`` as keep-pref, ``min_`` as min).

    Its docstring describes the policy and cites its source; its keyword parameters are the policy's.

    Args:
        factory: The function.
        pass_interval_s: How often the policy is meant to decide, besides at events.
        cooldown_s: How long it is meant to leave a job alone after a resize.

    Raises:
        ValueError: The name is taken, the function has no docstring, or a parameter has no default.
    """
    if factory is None:
        return partial(register, pass_interval_s=pass_interval_s, cooldown_s=cooldown_s)
    name = factory.__name__.rstrip("_").replace("_", "-")
    if name in _FACTORIES:
        raise ValueError(f"policy {name!r} is registered twice")
    if not (description := inspect.getdoc(factory)):
        raise ValueError(f"policy {name!r} has no description")
    parameters = {key: value.default for key, value in inspect.signature(factory).parameters.items()}
    if needed := [key for key, default in parameters.items() if default is inspect.Parameter.empty]:
        raise ValueError(f"policy {name!r}: give its parameter {needed[0]} a default")
    found = re.search(r"^Source: (.*?)(?=^\[D\]|\n\n|\Z)", description, flags=re.MULTILINE | re.DOTALL)
    source = " ".join(found[1].split()) if found else ""
    summary = description.splitlines()[0]
    info = PolicyInfo(name, summary, description, source, parameters, pass_interval_s, cooldown_s)
    _FACTORIES[name] = factory, info
    return factory


def names() -> list[str]:
    """All policies, by name."""
    return sorted(_FACTORIES)


def get(name: str, **parameters: object) -> Policy:
    """Make the policy ``name``.

    Raises:
        UnknownPolicyError: No such policy or parameter.
        PolicyError: The function that makes it raises something else, or makes none.
    """
    known = describe(name).parameters
    if unknown := sorted(set(parameters).difference(known)):
        there = ", ".join(known) or "none"
        raise UnknownPolicyError(f"policy {name!r} has no parameter {', '.join(unknown)}; its parameters: {there}")
    try:
        made = _FACTORIES[name][0](**parameters)
    except UnknownPolicyError:
        raise
    except MISTAKES as error:
        raise PolicyError.raised(name, error, "when it was made") from error
    if not hasattr(made, "decide"):
        raise PolicyError(f"policy {name}: its function returned {made!r}, which has no method decide")
    return made


def describe(name: str) -> PolicyInfo:
    """Describe the policy ``name``.

    Raises:
        UnknownPolicyError: No such policy.
    """
    if name not in _FACTORIES:
        raise UnknownPolicyError(f"no policy {name!r}; there are {', '.join(names())}")
    return _FACTORIES[name][1]


def _number(text: str) -> float:
    number = float(text)
    if math.isnan(number):
        raise ValueError(text)
    return number


_FROM_TEXT: Final[dict[type, Callable[[str], object]]] = {
    bool: lambda text: {"true": True, "false": False}[text.lower()],
    int: int,
    float: _number,
    str: str,
}


def parse(name: str, words: Iterable[str]) -> dict[str, object]:
    """Read parameters of the policy ``name``, each given as NAME=VALUE, as the types of their defaults.

    Raises:
        UnknownPolicyError: No such policy.
        InvalidParameterError: No such parameter, or not a value for it.
    """
    known = describe(name).parameters
    found: dict[str, object] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or key not in known:
            there = ", ".join(known) or "none"
            raise InvalidParameterError(f"{word!r} is no parameter of {name} as NAME=VALUE; its parameters: {there}")
        kind = type(known[key])
        if kind not in _FROM_TEXT:
            raise InvalidParameterError(f"{word!r}: {key} can be given to the policy in Python only, not as text")
        try:
            found[key] = _FROM_TEXT[kind](value)
        except (ValueError, KeyError):
            raise InvalidParameterError(f"{word!r}: {key} takes a value like {known[key]!r}") from None
    return found
