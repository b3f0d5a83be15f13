"""Secrets, and digests by which secrets, bodies and names are looked up without being stored."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode


def sha256_hex(value: str | bytes) -> str:
    """The SHA-256 in hex, of a text in UTF-8; unencodable characters become `?`."""
    return hashlib.sha256(value if isinstance(value, bytes) else value.encode("utf-8", "replace")).hexdigest()


def short_digest(value: bytes, size: int = 16) -> str:
    """`size` bytes of BLAKE2b in hex, for comparisons of public data."""
    return hashlib.blake2b(value, digest_size=size).hexdigest()


def base64url(data: bytes) -> str:
    """Bytes in base64 for URLs, without padding (RFC 7515, appendix C)."""
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def from_base64url(text: str) -> bytes:
    """The bytes of the output of `base64url`. Raises ValueError for another length."""
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


def new_secret() -> str:
    """256 random bits as 43 characters `[A-Za-z0-9_-]`."""
    return secrets.token_urlsafe(32)


_TYPED = "abcdefghjkmnpqrstuvwxyz23456789"


def new_password() -> str:
    """99 random bits as 20 characters that people don't mistake for one another."""
    return "".join(secrets.choice(_TYPED) for _ in range(20))


def keyed_digest(secret: str | bytes, message: str) -> str:
    """The HMAC of a text by SHA-256: 43 characters `[A-Za-z0-9_-]`, unpredictable without the secret."""
    key = secret if isinstance(secret, bytes) else secret.encode()
    return base64url(hmac.digest(key, message.encode("utf-8", "replace"), "sha256"))


def is_same(shown: str, known: str) -> bool:
    """Whether two texts are equal, in constant time."""
    return hmac.compare_digest(shown.encode("utf-8", "surrogatepass"), known.encode("utf-8", "surrogatepass"))
