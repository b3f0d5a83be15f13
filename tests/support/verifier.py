"""What an app makes up before it asks for a code (RFC 7636)."""

from __future__ import annotations

import secrets


def new_verifier() -> str:
    """A fresh secret of 256 bits, in the 43 characters of base64url."""
    return secrets.token_urlsafe(32)
