"""Which feed addresses may be shown to people who don't follow them.

Many services hand out private feeds under addresses that only their owner knows. A search must not show
such an address, so anything that looks like a secret keeps a feed out of the results. To hide a public feed costs
one user a paste; to show a private one can't be undone.
"""

from __future__ import annotations

import re
from itertools import pairwise
from urllib.parse import parse_qsl, unquote, urlsplit

_SECRET_NAMES = re.compile(r"token|secret|key|auth|pass|pwd|sig|session|sid|hash|code|private|user|login|email", re.I)
_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.I)
_RUN = re.compile(r"[A-Za-z0-9]{14,}")
_EMAIL = re.compile(r"[^/@\s]+@[^/@\s]+\.[^/@\s]+")


def is_public(url: str) -> bool:
    """Whether nothing in `url` looks like a credential or a secret."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    if "@" in parts.netloc or parts.scheme not in {"http", "https"}:
        return False
    query = parse_qsl(parts.query, keep_blank_values=True)
    if any(_SECRET_NAMES.search(name) for name, _ in query):
        return False
    texts = [unquote(parts.path), *(value for _, value in query)]
    return not any(_looks_secret(text) for text in texts)


def _looks_secret(text: str) -> bool:
    if _UUID.search(text) or _EMAIL.search(text):
        return True
    return any(_is_random(run) for run in _RUN.findall(text))


def _is_random(run: str) -> bool:
    """Long runs of letters are words unless their case jumps about; digits alone may be a date; a mix is chance."""
    has_digit = any(letter.isdigit() for letter in run)
    has_letter = any(letter.isalpha() for letter in run)
    if has_digit:
        return has_letter or len(run) > 14
    changes = sum(a.isupper() != b.isupper() for a, b in pairwise(run))
    return changes > len(run) // 3
