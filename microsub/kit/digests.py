"""Digests by which secrets, bodies and names are found without being stored."""

from __future__ import annotations

import hashlib


def sha256_hex(value: str | bytes) -> str:
    """The SHA-256 in hex; of a text in UTF-8, where what has no such form counts as `?`."""
    return hashlib.sha256(value if isinstance(value, bytes) else value.encode("utf-8", "replace")).hexdigest()


def short_digest(value: bytes, size: int = 16) -> str:
    """`size` bytes of BLAKE2b in hex, for comparing what is ours; nothing secret depends on it."""
    return hashlib.blake2b(value, digest_size=size).hexdigest()
