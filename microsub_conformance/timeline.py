"""Reading a timeline like a client: one page, or all pages one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from microsub_conformance.client import Client, Value
from microsub_conformance.verdict import Violation, expect

Item = dict[str, Any]

MANY_PAGES = 400
"""A walk that is longer than this counts as endless."""


@dataclass(frozen=True, slots=True)
class TimelinePage:
    """One page: its items and cursors, and the whole reply."""

    items: list[Item]
    after: str | None
    before: str | None
    reply: dict[str, Any]


def page(client: Client, channel: str, **parameters: Value) -> TimelinePage:
    """Fetch one page. Raises Violation unless the reply has a list `items` and an object `paging`."""
    reply = client.get("timeline", channel=channel, **parameters)
    items = reply.listed("items")
    paging = reply.json_object().get("paging")
    if not isinstance(paging, dict):
        raise Violation("'paging' to be an object on every page", reply.text)
    for name, cursor in paging.items():
        expect(isinstance(cursor, str) and cursor != "", f"'paging.{name}' to be a string or absent", paging)
    return TimelinePage(items, paging.get("after"), paging.get("before"), reply.json_object())


def walk(
    client: Client,
    channel: str,
    *,
    between: Callable[[int, TimelinePage], None] | None = None,
    limit: int = 100,
    **parameters: Value,
) -> list[Item]:
    """Follow `after` from the first page to the last; calls `between` with each page and its number from 1."""
    found: list[Item] = []
    cursors: set[str] = set()
    step: dict[str, Value] = {}
    for number in range(1, MANY_PAGES):
        part = page(client, channel, limit=limit, **parameters, **step)
        found += part.items
        if between:
            between(number, part)
        if part.after is None:
            return found
        expect(part.after not in cursors, "every 'paging.after' of a walk to be a new one", part.after)
        cursors.add(part.after)
        step = {"after": part.after}
    raise Violation(f"a walk to end within {MANY_PAGES} pages", f"{len(found)} items so far")


def ids(items: Iterable[Item]) -> list[str]:
    """The `_id` of each item. Raises Violation if one has none."""
    made = []
    for item in items:
        identifier = item.get("_id")
        if not isinstance(identifier, str):
            raise Violation("'_id' of every item to be a string", item)
        made.append(identifier)
    return made


def urls(items: Iterable[Item]) -> list[str | None]:
    """The `url` of each item."""
    return [item.get("url") for item in items]


def unread_ids(items: Iterable[Item]) -> list[str]:
    """The `_id` of the unread items."""
    return [identifier for identifier, item in ((ids([item])[0], item) for item in items) if not item.get("_is_read")]


def each_once(found: Iterable[Item], wanted: Iterable[str], what: str) -> None:
    """Raise Violation unless every id of `wanted` is in `found` exactly once."""
    seen = ids(found)
    missing = [identifier for identifier in wanted if identifier not in seen]
    doubled = sorted({identifier for identifier in seen if seen.count(identifier) > 1})
    expect(not missing and not doubled, f"{what}, each exactly once", {"missing": missing, "doubled": doubled})
