"""Hashes of passwords by Argon2id (RFC 9106)."""

from __future__ import annotations

from argon2 import PasswordHasher, Type
from argon2.exceptions import InvalidHashError, VerificationError


class Argon2id(PasswordHasher):
    """The library's hasher, with one thread, this many passes over that much memory, and a salt of 16 bytes."""

    def __init__(self, passes: int, memory_kib: int) -> None:
        super().__init__(passes, memory_kib, 1, 32, 16, type=Type.ID)

    def matches(self, hashed: str, password: str) -> bool:
        """Whether the password has that hash; False for text that isn't a hash."""
        try:
            return self.verify(hashed, password)
        except (VerificationError, InvalidHashError):
            return False
