"""Encryption with a key that isn't in Redis: AES-256 with GCM (NIST SP 800-38D), and the file of such a key."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import re
import secrets
import tempfile
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from microsub.base.digests import new_secret
from microsub.base.errors import ConfigError

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


_SECRET = re.compile(r"[A-Za-z0-9_-]{43}")


class KeyFile:
    """A secret in a file that only this system user can read. With it and Redis, what was sealed can be read."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> str | None:
        """The secret; None if there is no file. Raises ConfigError for a file that can't be read or has no secret."""
        try:
            found = self._path.read_text("ascii", "replace").strip()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unusable(error.strerror or str(error)) from error
        if not _SECRET.fullmatch(found):
            raise self._unusable("something else")
        return found

    def secret(self) -> str:
        """The secret, made if there is no file yet; of several processes that do so, one wins. Raises ConfigError."""
        if (known := self.read()) is not None:
            return known
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle, written = tempfile.mkstemp(prefix=".key-", dir=self._path.parent)  # mode 0600
            try:
                with os.fdopen(handle, "w") as file:
                    file.write(new_secret() + "\n")
                    file.flush()
                    os.fsync(file.fileno())
                with contextlib.suppress(FileExistsError):
                    os.link(written, self._path)
            finally:
                os.unlink(written)
        except OSError as error:
            raise self._unusable(error.strerror or str(error)) from error
        return self.read() or self.secret()

    def _unusable(self, found: str) -> ConfigError:
        return ConfigError(file=str(self._path), path="", found=found, expected="a key of 43 characters, readable here")
