"""Which edition of the reading code this is: what one edition has understood, another reads again."""

from __future__ import annotations

import hashlib
import secrets
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_LIBRARIES = ("beautifulsoup4", "charset-normalizer", "feedparser", "mf2py", "nh3", "selectolax")
"""What has a say in what an entry becomes, beside this package."""

_PACKAGE = Path(__file__).resolve().parents[1]
_CODE = ("formats/*.py", "model/jf2.py", "posts/entries.py")


@cache
def edition() -> bytes:
    """A digest of the code that turns documents into posts, and of the libraries that it uses.

    Nobody has to remember to raise a number. Where the code can't be seen, no two processes have the same edition.
    """
    digest = hashlib.blake2b(digest_size=16)
    try:
        for path in sorted(path for pattern in _CODE for path in _PACKAGE.glob(pattern)):
            digest.update(path.read_bytes())
        for name in _LIBRARIES:
            digest.update(f"{name} {version(name)}\n".encode())
    except (OSError, PackageNotFoundError):
        return secrets.token_bytes(16)
    return digest.digest()
