"""PKCE by RFC 7636, with its own example."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from microsub.identity.protocol.clients import pkce_challenge, pkce_matches

VERIFIER = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
CHALLENGE = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"


def test_the_rfcs_example() -> None:
    """Appendix B of RFC 7636."""
    assert pkce_challenge(VERIFIER) == CHALLENGE
    assert pkce_matches(VERIFIER, CHALLENGE, "S256")


@pytest.mark.parametrize(
    ("verifier", "challenge", "method"),
    [
        (VERIFIER, CHALLENGE, "plain"),
        (VERIFIER, VERIFIER, "plain"),
        (VERIFIER, CHALLENGE, "s256"),
        (VERIFIER, CHALLENGE, ""),
        (VERIFIER, CHALLENGE + "=", "S256"),
        (VERIFIER, CHALLENGE[:-1] + "N", "S256"),
        (VERIFIER[:-1], CHALLENGE, "S256"),
        ("", "", "S256"),
        ("", "47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU", "S256"),
        ("ü" * 50, CHALLENGE, "S256"),
        (VERIFIER + "\n", CHALLENGE, "S256"),
        (VERIFIER, CHALLENGE + "\n", "S256"),
    ],
)
def test_wrong_verifiers_and_methods_prove_nothing(verifier: str, challenge: str, method: str) -> None:
    """Other methods, other verifiers, and invalid verifiers and challenges prove nothing."""
    assert not pkce_matches(verifier, challenge, method)


@given(st.text(max_size=60), st.text(max_size=60), st.text(max_size=6) | st.just("S256"))
def test_matching_never_raises(verifier: str, challenge: str, method: str) -> None:
    """Any input gives a result."""
    assert not pkce_matches(verifier, challenge, method)
