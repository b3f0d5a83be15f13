"""Passkey responses with changed, missing or additional bytes are refused in one way, and never accepted."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from microsub.identity.passkeys import PasskeyRefused, creation_options, request_options
from microsub.identity.webauthn import LONGEST_KEY, attested, presented_credential, verified_count
from tests.support import examples
from tests.support.authenticator import Authenticator, b64, unb64

PARTY = "https://reader.example"
CHALLENGE = bytes(range(32))
HANDLE = "ab" * 32

DEVICE = Authenticator(PARTY)
MADE = DEVICE.make(creation_options(PARTY, CHALLENGE, "ann", HANDLE, []))
KEY = attested(PARTY, CHALLENGE, MADE, "phone", 0.0).key
USED = DEVICE.use(request_options(PARTY, CHALLENGE))

changes = st.lists(
    st.tuples(st.sampled_from(["set", "cut", "put"]), st.integers(0, 400), st.binary(min_size=1, max_size=40)),
    min_size=1,
    max_size=4,
)
json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)


def changed(raw: bytes, how: list[tuple[str, int, bytes]]) -> bytes:
    for what, place, value in how:
        at = place % (len(raw) + 1)
        raw = {
            "set": raw[:at] + value + raw[at + len(value) :],
            "cut": raw[:at],
            "put": raw[:at] + value + raw[at:],
        }[what]
    return raw


@settings(max_examples=examples(100), deadline=None)
@given(part=st.sampled_from(["clientDataJSON", "authenticatorData", "signature"]), how=changes)
def test_a_changed_answer_is_refused(part: str, how: list[tuple[str, int, bytes]]) -> None:
    """Every byte is signed."""
    answer = copy.deepcopy(USED)
    raw = unb64(answer["response"][part])
    if changed(raw, how) == raw:
        return
    answer["response"][part] = b64(changed(raw, how))
    with pytest.raises(PasskeyRefused):
        verified_count(PARTY, CHALLENGE, KEY, 0, answer)


@settings(max_examples=examples(100), deadline=None)
@given(how=changes)
def test_a_changed_passkey_is_refused_or_another_one(how: list[tuple[str, int, bytes]]) -> None:
    """Only the challenge protects a new passkey; invalid ones are refused."""
    answer = copy.deepcopy(MADE)
    answer["response"]["attestationObject"] = b64(changed(unb64(answer["response"]["attestationObject"]), how))
    try:
        made = attested(PARTY, CHALLENGE, answer, "phone", 0.0)
    except PasskeyRefused:
        return
    assert made.id == b64(DEVICE.id)
    assert len(made.key) <= LONGEST_KEY


@settings(max_examples=examples(75), deadline=None)
@given(answer=st.dictionaries(st.sampled_from(["id", "rawId", "type", "response", "x"]), json))
def test_any_json_is_refused(answer: dict[str, Any]) -> None:
    """Its shape doesn't matter."""
    with pytest.raises(PasskeyRefused):
        attested(PARTY, CHALLENGE, answer, "phone", 0.0)
    with pytest.raises(PasskeyRefused):
        presented_credential(answer)


@settings(max_examples=examples(75), deadline=None)
@given(parts=st.dictionaries(st.sampled_from(list(USED["response"])), json))
def test_any_parts_are_refused(parts: dict[str, Any]) -> None:
    """They replace valid parts."""
    answer = {**USED, "response": {**USED["response"], **parts}}
    if answer["response"] == USED["response"] or parts.keys() <= {"userHandle"}:
        return
    with pytest.raises(PasskeyRefused):
        verified_count(PARTY, CHALLENGE, KEY, 0, answer)
