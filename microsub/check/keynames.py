"""Keys read backwards: the function that names a key, its type, whether it may stay.

The functions are those of `redis.keys` and `redis.identitykeys`.

Type and lifetime are what the function's docstring says, which is the contract.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

from microsub.redis import identitykeys, keys

_TYPES = {"String": "string", "Hash": "hash", "Set": "set", "Sorted set": "zset", "Stream": "stream", "List": "list"}
_TYPE = re.compile(rf"({'|'.join(sorted(_TYPES, key=len, reverse=True))})\b(?!, hash)")

# What a docstring says where a key may stay until its owner goes, and where it must.
_MAY_STAY = re.compile(r"permanent|as `feed`|as long as a timeline|beyond the last follower", re.IGNORECASE)
_STAYS = re.compile(r"permanent(?!, or until)|as long as a timeline", re.IGNORECASE)

_NAME = r"[A-Za-z0-9_-]{1,64}"
_NUMBER = r"[0-9]{1,19}"
_NAMES = dict.fromkeys(("name", "uid", "feed"), _NAME)
_VALUES = {**_NAMES, "feed_id": _NUMBER, "item_id": _NUMBER, "digest": r"[0-9a-f]{64}"}
_BUCKET = 4
"""Characters by which the candidates for a key are chosen; no key begins with fewer that don't vary."""


@dataclass(frozen=True, slots=True)
class Kind:
    """All keys that one function names.

    `type` is what the command TYPE must say, None for any. `may_stay`: no time to live is needed; `stays`: there must
    be none. `prefix` is what all of them begin with.
    """

    name: str
    type: str | None
    may_stay: bool
    stays: bool
    prefix: str
    pattern: re.Pattern[str]


def kind_of(key: str) -> tuple[Kind, Mapping[str, str]] | None:
    """The kind of a key and the values in it, by parameter; None for a key that isn't ours."""
    for kind in _by_beginning().get(key[:_BUCKET], ()):
        if match := kind.pattern.match(key):
            return kind, match.groupdict()
    return None


def looks_like_ours(key: str) -> bool:
    """Whether a key that no function names begins like one of ours: likely a mistake."""
    return any(key.startswith(kind.prefix) for kind in kinds() if kind.name != "item")


def key_functions() -> list[Callable[..., str]]:
    """All functions that name keys, module by module in the order of the text."""
    found = [
        function
        for module in (keys, identitykeys)
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__ == module.__name__ and name != "pattern" and not name.startswith("_")
    ]
    return sorted(found, key=lambda function: (function.__module__ != keys.__name__, function.__code__.co_firstlineno))


@cache
def kinds() -> tuple[Kind, ...]:
    """All kinds of keys, those with most literal text first."""
    found = []
    for function in key_functions():
        parameters = list(inspect.signature(function).parameters)
        example = function(*(f"\0{name}\0" for name in parameters))
        literals = re.split(r"\0\w+\0", example)
        pattern = re.escape(literals[0])
        for name, literal in zip(parameters, literals[1:], strict=True):
            pattern += f"(?P<{name}>{_VALUES.get(name, '.+')})" + re.escape(literal)
        text = " ".join((function.__doc__ or "").split())
        typed = _TYPE.match(text)
        kind = Kind(
            function.__name__,
            _TYPES[typed[1]] if typed else None,
            bool(_MAY_STAY.search(text)) or not text,
            bool(_STAYS.search(text)),
            literals[0],
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
