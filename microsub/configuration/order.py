"""Two ways of keeping an order that several people change: permuting among places, inserting next to neighbours."""

from __future__ import annotations

from collections.abc import Sequence


def permuted(order: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """`order` with the members of `wanted` in that order among the places they hold; the others stay."""
    left = iter(wanted)
    members = set(wanted)
    return [next(left) if uid in members else uid for uid in order]


def inserted(order: Sequence[str], wanted: Sequence[str], added: Sequence[str]) -> list[str]:
    """`order` with each added uid behind its neighbour in `wanted`, else before the next one, else at the end.

    Every added uid stands in `wanted`, and none in `order`.
    """
    present, new = set(order), set(added)
    first = next((uid for uid in wanted if uid in present), None)
    behind: dict[str | None, list[str]] = {}
    neighbour: str | None = None
    for uid in wanted:
        if uid in present:
            neighbour = uid
        elif uid in new:
            behind.setdefault(neighbour, []).append(uid)
    leading = behind.pop(None, [])
    merged: list[str] = []
    for uid in order:
        if uid == first:
            merged += leading
        merged += [uid, *behind.get(uid, ())]
    return merged if first is not None else merged + leading
