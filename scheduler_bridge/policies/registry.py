"""Policies by name."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from scheduler_bridge.policies.base import Policy


class UnknownPolicyError(ValueError):
    """No policy has that name, or the policy has no such parameter; the text lists what there is."""


class InvalidParameterError(UnknownPolicyError):
    """A parameter of a policy has a value that it cannot have; the text lists what it can."""


@dataclass(frozen=True, slots=True)
class PolicyInfo:
    """What a policy is: its name, one line, the whole description, its source, and its parameters' defaults."""

    name: str
    summary: str
    description: str
    source: str
    parameters: dict[str, object]


_FACTORIES: dict[str, Callable[..., Policy]] = {}


def register(factory: Callable[..., Policy]) -> Callable[..., Policy]:
    """Register a function that makes a policy under the function's name (``keep_pref`` as keep-pref, ``min_`` as min).

    Its docstring describes the policy and cites its source; its keyword parameters are the policy's.

    Raises:
        ValueError: The name is taken, or the function has no docstring.
    """
    name = factory.__name__.rstrip("_").replace("_", "-")
    if name in _FACTORIES:
        raise ValueError(f"policy {name!r} is registered twice")
    if not inspect.getdoc(factory):
        raise ValueError(f"policy {name!r} has no description")
    _FACTORIES[name] = factory
    return factory


def names() -> list[str]:
    """All policies, by name."""
    return sorted(_FACTORIES)


def get(name: str, **parameters: object) -> Policy:
    """Make the policy ``name``.

    Raises:
        UnknownPolicyError: No such policy or parameter.
    """
    known = describe(name).parameters
    if unknown := sorted(set(parameters).difference(known)):
        there = ", ".join(known) or "none"
        raise UnknownPolicyError(f"policy {name!r} has no parameter {', '.join(unknown)}; its parameters: {there}")
    return _FACTORIES[name](**parameters)


def describe(name: str) -> PolicyInfo:
    """Describe the policy ``name``.

    Raises:
        UnknownPolicyError: No such policy.
    """
    if name not in _FACTORIES:
        raise UnknownPolicyError(f"no policy {name!r}; there are {', '.join(names())}")
    description = inspect.getdoc(_FACTORIES[name]) or ""
    parameters = {key: value.default for key, value in inspect.signature(_FACTORIES[name]).parameters.items()}
    found = re.search(r"^Source: (.*?)(?=^\[D\]|\n\n|\Z)", description, flags=re.MULTILINE | re.DOTALL)
    source = " ".join(found[1].split()) if found else ""
    return PolicyInfo(name, description.splitlines()[0], description, source, parameters)


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
        try:
            found[key] = type(known[key])(value)  # type: ignore[call-arg]  # bool, int, float and str take a text
        except ValueError:
            raise InvalidParameterError(f"{word!r}: {key} takes a value like {known[key]!r}") from None
    return found
