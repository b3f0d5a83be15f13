"""The rule for which addresses of feeds may be shown to strangers."""

from __future__ import annotations

import re
from itertools import pairwise
from urllib.parse import parse_qsl, unquote

from microsub.base.urls import web_parts

_SECRET_NAMES = re.compile(r"token|secret|key|auth|pass|pwd|sig|session|sid|hash|code|private|user|login|email", re.I)
_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.I)
_RUN = re.compile(r"[A-Za-z0-9]{14,}")
_EMAIL = re.compile(r"[^/@\s]@[^/@\s]+\.[^/@\s]")


def is_public(url: str) -> bool:
    """Whether nothing in `url` looks like a credential or a secret."""
    if (parts := web_parts(url)) is None or "@" in parts.netloc:
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
    """Whether a run looks random: letters with many changes of case, long digits, or a mix of both."""
    has_digit = any(letter.isdigit() for letter in run)
    has_letter = any(letter.isalpha() for letter in run)
    if has_digit:
        return has_letter or len(run) > 14
    changes = sum(a.isupper() != b.isupper() for a, b in pairwise(run))
    return changes > len(run) // 3
