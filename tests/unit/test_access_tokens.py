"""Tokens: who has one, and who can prove it."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_bridge.live.access import Holder, Tokens
from scheduler_bridge.live.access.calling import CallError, read_token, token_file
from scheduler_bridge.live.access.tokens import TOKENS, Proof, TokensError, key_of, nonce, prove, recognise

digits = st.text("0123456789abcdef", min_size=64, max_size=64)


def test_tokens_come_and_go(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    assert tokens.holders() == {}
    said = tokens.add("anna")
    tokens.add("olga", operator=True)
    name, _, token = said.partition(":")
    assert (name, tokens.holders()["anna"]) == ("anna", Holder(key_of(token)))
    assert tokens.holders()["olga"].operator
    assert token not in (tmp_path / TOKENS).read_text()
    assert stat.S_IMODE((tmp_path / TOKENS).stat().st_mode) == 0o600
    assert tokens.add("anna") != said
    assert tokens.holders()["anna"] != Holder(key_of(token))
    tokens.remove("anna")
    assert list(tokens.holders()) == ["olga"]
    with pytest.raises(TokensError, match="anna has no token"):
        tokens.remove("anna")
    assert [entry.name for entry in tmp_path.iterdir()] == [TOKENS]


@pytest.mark.parametrize("name", ["", "a b", "a:b", "a\nb", "x" * 101, "../x"])
def test_a_name_has_to_be_one(tmp_path: Path, name: str) -> None:
    with pytest.raises(TokensError, match="is not a user's name"):
        Tokens(tmp_path).add(name)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"anna": 1}', '{"anna": {"key": "x"}}', '{"a b": {}}', "\xff"])
def test_a_broken_file_lets_nobody_in(tmp_path: Path, text: str) -> None:
    (tmp_path / TOKENS).write_text(text, encoding="latin-1")
    with pytest.raises(TokensError, match=TOKENS):
        Tokens(tmp_path).holders()


def test_there_has_to_be_a_folder(tmp_path: Path) -> None:
    with pytest.raises(TokensError, match="No such file"):
        Tokens(tmp_path / "none").add("anna")


def test_who_has_the_token_is_known_and_so_is_the_scheduler() -> None:
    key, theirs, ours = key_of("secret"), nonce(), nonce()
    said = Proof("anna", ours, prove("caller", key, "anna", theirs, ours))
    known = recognise({"anna": Holder(key, operator=True)}, theirs, said)
    assert known is not None
    caller, welcome = known
    assert (caller.name, caller.operator) == ("anna", True)
    assert welcome.proof == prove("scheduler", key, "anna", theirs, ours)
    assert welcome.proof != said.proof


@given(name=st.sampled_from(["anna", "ben"]), proof=digits, heard=digits, ours=digits, old=digits)
def test_nobody_else_is(name: str, proof: str, heard: str, ours: str, old: str) -> None:
    key = key_of("secret")
    holders = {"anna": Holder(key)}
    lies = [
        Proof(name, ours, proof),
        Proof(name, ours, prove("caller", key_of("guess"), name, heard, ours)),
        Proof(name, ours, prove("scheduler", key, name, heard, ours)),
        Proof("ben", ours, prove("caller", key, "anna", heard, ours)),
    ]
    if old != heard:
        lies.append(Proof(name, ours, prove("caller", key, name, old, ours)))
    assert all(recognise(holders, heard, lie) is None for lie in lies)


def test_a_token_is_read_where_nobody_else_can(tmp_path: Path) -> None:
    kept = tmp_path / "token"
    with pytest.raises(CallError, match="No such file"):
        read_token(kept)
    kept.write_text("anna:abc\n")
    kept.chmod(0o640)
    with pytest.raises(CallError, match="others can read"):
        read_token(kept)
    kept.chmod(0o600)
    assert read_token(kept) == ("anna", "abc")
    for text in ("anna", ":abc", "anna:", "\xff\xff"):
        kept.write_text(text, encoding="latin-1")
        with pytest.raises(CallError, match="holds no token"):
            read_token(kept)
    assert token_file({"MALLEABLE_TOKEN_FILE": "/x/y"}) == Path("/x/y")
    assert token_file({}).name == "token"
