"""Fields of an item that are stored only if they differ from another one of its fields.

Most posts have their link as guid, and weren't edited or registered again since they were found. A reader of such a
field asks for the other ones too, and `item_update` writes a link before a guid changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from microsub.posts.values import WRITTEN_GUID
from microsub.redis.protocol import Arg

SAME_AS: Mapping[str, tuple[str, ...]] = {
    "link": (WRITTEN_GUID, "guid"),
    "updated": ("discovered",),
    "twin_at": ("discovered",),
}
"""Field → those of which the first that isn't empty is its value, if it isn't stored."""


def thinned(fields: Mapping[str, Arg]) -> dict[str, Arg]:
    """The fields of a new item that are to be stored."""
    return {
        name: value
        for name, value in fields.items()
        if name not in SAME_AS or value != next((found for one in SAME_AS[name] if (found := fields.get(one))), None)
    }


def with_others(names: Sequence[str]) -> list[str]:
    """The fields to ask for, to know those of the given names: these, and the ones that may stand for them."""
    return [*names, *(other for name in names for other in SAME_AS.get(name, ()))]


def completed(names: Sequence[str], row: Iterable[bytes | None]) -> list[bytes | None]:
    """The values of the fields, from those of `with_others`."""
    found = [*row]
    values, others = found[: len(names)], iter(found[len(names) :])
    for at, name in enumerate(names):
        if name in SAME_AS:
            stands = [next(others) for _ in SAME_AS[name]]
            if values[at] is None:
                values[at] = next(filter(None, stands), None)
    return values


def whole(fields: dict[bytes, bytes]) -> dict[bytes, bytes]:
    """All fields of an item, from the stored ones."""
    for name, others in SAME_AS.items():
        if name.encode() not in fields and (
            found := next(filter(None, (fields.get(one.encode()) for one in others)), b"")
        ):
            fields[name.encode()] = found
    return fields


def scripted() -> list[str]:
    """The same for lua/item_thin.lua: per field its name, and the others."""
    return [part for name, others in SAME_AS.items() for part in (name, " ".join(others))]
