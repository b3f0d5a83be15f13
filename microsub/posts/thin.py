"""Fields of an item that are stored only if they differ from another one of its fields.

Most posts have their link as guid, their site as author, and weren't edited or registered again since they were found.
A reader of such a field asks for the other ones too, and `item_update` writes link and author before a guid changes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from microsub.posts.values import WRITTEN_GUID
from microsub.redis.protocol import Arg

SAME_AS: Mapping[str, tuple[str, ...]] = {
    "author": ("guid",),
    "link": (WRITTEN_GUID, "guid"),
    "updated": ("discovered",),
    "twin_at": ("discovered",),
}
"""Field → those of which the first that isn't empty is its value, if it isn't stored; `author` is its beginning."""

_SITE = re.compile(r"https://[^/]+/")
"""The beginning of a guid that is the comparison form of its site's address."""


def thinned(fields: Mapping[str, Arg]) -> dict[str, Arg]:
    """The fields of a new item that are to be stored."""
    return {name: value for name, value in fields.items() if name not in SAME_AS or value != _other(name, fields.get)}


def with_others(names: Sequence[str]) -> list[str]:
    """The fields to ask for, to know those of the given names: these, and the ones that may stand for them."""
    return [*names, *(other for name in names for other in SAME_AS.get(name, ()))]


def completed(names: Sequence[str], rows: Iterable[Sequence[bytes | None]]) -> list[list[bytes | None]]:
    """The values of the fields of several items, row by row, from those of `with_others`."""
    asked, thin = with_others(names), [(at, name) for at, name in enumerate(names) if name in SAME_AS]
    found = []
    for row in rows:
        values = [*row[: len(names)]]
        for at, name in thin:
            if values[at] is None:
                values[at] = _other(name, dict(zip(asked, row, strict=True)).get)
        found.append(values)
    return found


def whole(fields: dict[bytes, bytes]) -> dict[bytes, bytes]:
    """All fields of an item, from the stored ones."""
    for name in SAME_AS:
        if name.encode() not in fields and (found := _other(name, lambda one: fields.get(one.encode()))):
            fields[name.encode()] = found
    return fields


def _other(name: str, value_of: Callable[[str], Any]) -> Any:
    """The value that stands for a field which isn't stored; None if there is none."""
    found = next(filter(None, map(value_of, SAME_AS[name])), None)
    if name != "author" or found is None:
        return found
    site = _SITE.match(found.decode(errors="replace") if isinstance(found, bytes) else found)
    if site is None:
        return None
    return site[0].encode() if isinstance(found, bytes) else site[0]


def scripted() -> list[str]:
    """The same for lua/item_thin.lua: per field its name, and the others."""
    return [part for name, others in SAME_AS.items() for part in (name, " ".join(others))]
