"""PKCE: proof that the app that redeems a code is the one that asked for it
(https://www.rfc-editor.org/rfc/rfc7636)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re

METHOD = "S256"
"""The one method: `plain` proves nothing to somebody who has seen the request."""

_VERIFIER = re.compile(r"[A-Za-z0-9._~-]{43,128}")
_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")


def challenge(verifier: str) -> str:
    """What is told beforehand of `verifier`, by the method S256."""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode("ascii")


def is_challenge(text: str) -> bool:
    """Whether `text` has the form of a challenge by S256: anything else can never be matched."""
    return _CHALLENGE.fullmatch(text) is not None


def matches(verifier: str, challenge: str, method: str) -> bool:
    """Whether `verifier` is the one behind `challenge`. Never raises; a near miss takes as long as a far one."""
    if method != METHOD or not _VERIFIER.fullmatch(verifier) or not is_challenge(challenge):
        return False
    return hmac.compare_digest(_challenge(verifier), challenge)


_challenge = challenge
