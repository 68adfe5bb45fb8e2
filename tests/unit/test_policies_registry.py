"""Policies by name."""

from __future__ import annotations

import pytest

from scheduler_bridge import policies
from scheduler_bridge.policies import registry


def test_the_policies_of_the_papers_are_there() -> None:
    expected = "fcfs backfilling easy conservative malleable min pref avg keep-pref mebf sd-policy penalty"
    assert set(expected.split()) <= set(policies.names())


@pytest.mark.parametrize("name", policies.names())
def test_every_policy_knows_its_name_and_cites_its_source(name: str) -> None:
    info = policies.describe(name)
    assert policies.get(name).name == info.name == name
    assert "Source:" in info.description
    assert info.summary == info.description.splitlines()[0] != ""


@pytest.mark.parametrize("name", policies.names())
def test_the_source_is_separate_from_the_decisions(name: str) -> None:
    info = policies.describe(name)
    assert info.source.endswith(".")
    assert "[D]" not in info.source
    for key in info.parameters:
        assert f"``{key}``" in info.description or key in info.description.split("Source:")[0], key


def test_parameters_are_read_as_their_defaults_are() -> None:
    assert policies.parse("mebf", ["expand=spare", "ratio=0.25"]) == {"expand": "spare", "ratio": 0.25}
    assert policies.parse("easy", []) == {}
    for words, story in (
        (["ratio"], "'ratio' is no parameter of mebf as NAME=VALUE; its parameters: expand, plus"),
        (["size=3"], "'size=3' is no parameter"),
        (["ratio=half"], "'ratio=half': ratio takes a value like 0.5"),
        (["ratio=nan"], "'ratio=nan': ratio takes a value like 0.5"),
    ):
        with pytest.raises(policies.InvalidParameterError, match=story):
            policies.parse("mebf", words)


def test_truth_is_read_as_such_and_what_is_no_text_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_FACTORIES", dict(registry._FACTORIES))

    def mine(strict: bool = True, most: int | None = None) -> policies.Policy:
        """One line."""
        return policies.get("fcfs")

    policies.register(mine)
    assert policies.parse("mine", ["strict=false"]) == {"strict": False}
    assert policies.parse("mine", ["strict=True"]) == {"strict": True}
    with pytest.raises(policies.InvalidParameterError, match="'strict=no': strict takes a value like True"):
        policies.parse("mine", ["strict=no"])
    with pytest.raises(policies.InvalidParameterError, match="'most=3': most can be given to the policy in Python"):
        policies.parse("mine", ["most=3"])


def test_unknown_names_are_answered_with_those_that_exist() -> None:
    with pytest.raises(policies.UnknownPolicyError, match=r"no policy 'esy'; there are .*easy"):
        policies.get("esy")


def test_unknown_parameters_are_named() -> None:
    with pytest.raises(policies.UnknownPolicyError, match="'easy' has no parameter gamma; its parameters: none"):
        policies.get("easy", gamma=2)


def test_parameters_are_described_and_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_FACTORIES", dict(registry._FACTORIES))

    def two_words(share: float = 0.4) -> policies.Policy:
        """One line."""
        assert share == 0.5
        return policies.get("fcfs")

    policies.register(two_words)
    assert policies.describe("two-words").parameters == {"share": 0.4}
    policies.get("two-words", share=0.5)
    with pytest.raises(ValueError, match="registered twice"):
        policies.register(two_words)


def test_a_policy_without_description_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_FACTORIES", dict(registry._FACTORIES))

    def silent() -> policies.Policy:
        return policies.get("fcfs")

    with pytest.raises(ValueError, match="'silent' has no description"):
        policies.register(silent)
