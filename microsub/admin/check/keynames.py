"""Key names, parsed: the name of a key in `redis.keys`, its type, and whether it may be permanent.

Type and lifetime are taken from the text after a key's form, which is authoritative.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import re
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from microsub.redis import keys

_TYPES = {"String": "string", "Hash": "hash", "Set": "set", "Sorted set": "zset", "Stream": "stream", "List": "list"}
_TYPE = re.compile(rf"({'|'.join(sorted(_TYPES, key=len, reverse=True))})\b(?!, hash)")

# The words of the text for keys that may be permanent until their owner is deleted, and for keys that must be.
_MAY_STAY = re.compile(r"permanent|as `feed`", re.IGNORECASE)
_STAYS = re.compile(r"permanent(?!, or until)", re.IGNORECASE)

_NAME = r"[A-Za-z0-9_-]{1,64}"
_NUMBER = r"[0-9]{1,19}"
_NAMES = dict.fromkeys(("name", "uid", "feed"), _NAME)
_VALUES = {**_NAMES, "feed_id": _NUMBER, "item_id": _NUMBER, "digest": r"[0-9a-f]{64}"}
_BUCKET = 4
"""Number of first characters by which candidates for a key are chosen; every form begins with at least so many."""


class Kind(NamedTuple):
    """All keys of one form.

    `type` is the required reply to the command TYPE, None for any. `may_stay`: no time to live is needed; `stays`:
    there must be none. `prefix` is the common beginning of all keys.
    """

    name: str
    type: str | None
    may_stay: bool
    stays: bool
    prefix: str
    pattern: re.Pattern[str]


def kind_of(key: str) -> tuple[Kind, Mapping[str, str]] | None:
    """The kind of a key and the values in it, by parameter; None for an unknown key."""
    for kind in _by_beginning().get(key[:_BUCKET], ()):
        if match := kind.pattern.match(key):
            return kind, match.groupdict()
    return None


def looks_like_ours(key: str) -> bool:
    """Whether a key of no known form has the prefix of a known one: likely a mistake."""
    return any(key.startswith(kind.prefix) for kind in kinds() if kind.name != "item")


@cache
def texts() -> Mapping[str, tuple[str, str]]:
    """The form of each key and the text after it, by its name in `redis.keys`."""
    found = {}
    for pair in itertools.pairwise(ast.parse(inspect.getsource(keys)).body):
        match pair:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(args=[ast.Constant(value=str(form))])),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                found[name] = form, " ".join(text.split())
    return found


@cache
def kinds() -> tuple[Kind, ...]:
    """All kinds of keys, those with most literal text first."""
    found = []
    for name, (form, text) in texts().items():
        first, *others = literals = re.split(r"<\w+>", form)
        pattern = re.escape(first)
        for value, literal in zip(re.findall(r"<(\w+)>", form), others, strict=True):
            pattern += f"(?P<{value}>{_VALUES.get(value, '.+')})" + re.escape(literal)
        typed = _TYPE.match(text)
        kind = Kind(
            name,
            _TYPES[typed[1]] if typed else None,
            bool(_MAY_STAY.search(text)),
            bool(_STAYS.search(text)),
            first,
            re.compile(pattern + r"\Z"),
        )
        found.append((len("".join(literals)), kind))
    return tuple(kind for _, kind in sorted(found, key=lambda pair: -pair[0]))


@cache
def _by_beginning() -> Mapping[str, tuple[Kind, ...]]:
    buckets: dict[str, list[Kind]] = {}
    for kind in kinds():
        buckets.setdefault(kind.prefix[:_BUCKET], []).append(kind)
    return {beginning: tuple(listed) for beginning, listed in buckets.items()}
