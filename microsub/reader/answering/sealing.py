"""Encryption with a key that isn't stored: AES-256 with GCM (NIST SP 800-38D)."""

from __future__ import annotations

import hashlib
import hmac
import secrets

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_NONCE = 12


def seal(text: str, secret: str, about: str) -> bytes:
    """Encrypt `text`, so that it can only be read with `secret` (256 random bits) and for the same `about`."""
    nonce = secrets.token_bytes(_NONCE)
    return nonce + AESGCM(_key(secret)).encrypt(nonce, text.encode(), about.encode())


def unseal(sealed: bytes, secret: str, about: str) -> str | None:
    """The sealed text; None if it was not sealed with this key or was changed."""
    try:
        return AESGCM(_key(secret)).decrypt(sealed[:_NONCE], sealed[_NONCE:], about.encode()).decode()
    except (InvalidTag, ValueError):
        return None


def _key(secret: str) -> bytes:
    return hmac.digest(secret.encode(), b"sealing", hashlib.sha256)
