"""Secrets that are never stored, yet can be told a second time.

Who asks for the same exchange twice within seconds gets the same tokens. So these are not drawn, but derived by
HMAC-SHA256 from two things that never lie in one place: what the asker holds (the code, the refresh token), of which
the store has a hash only, and a random seed, which the store alone has.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets

LONGEST = 512
"""Characters of the longest token or code that is looked at."""


def digest(secret: str) -> str:
    """The SHA-256, in hex, by which a secret is stored and found."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def new_seed() -> str:
    """256 random bits, as text."""
    return secrets.token_urlsafe(32)


def derive(seed: str, purpose: str, *held: str) -> str:
    """256 bits, as 43 characters `[A-Za-z0-9_-]`, for one purpose; nobody can tell them without the seed and `held`."""
    message = "\0".join((purpose, *(f"{len(part)}:{part}" for part in held)))
    made = hmac.digest(seed.encode(), message.encode("utf-8", "replace"), "sha256")
    return base64.urlsafe_b64encode(made).rstrip(b"=").decode()
