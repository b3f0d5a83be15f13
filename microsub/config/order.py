"""Two ways of keeping an order that several people change: permuting among places, inserting next to neighbours."""

from __future__ import annotations

from collections.abc import Sequence


def permuted(order: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """`order` with the members of `wanted` in that order among the places they hold; the others stay."""
    left = iter(wanted)
    members = set(wanted)
    return [next(left) if uid in members else uid for uid in order]


def inserted(order: list[str], wanted: list[str], added: Sequence[str]) -> list[str]:
    """`order` (changed in place) with each added uid behind its neighbour in `wanted`, else before the next one, else
    at the end.
    """
    for uid in added:
        place = wanted.index(uid)
        before = next((near for near in reversed(wanted[:place]) if near in order), None)
        behind = next((near for near in wanted[place + 1 :] if near in order), None)
        if before is not None:
            order.insert(order.index(before) + 1, uid)
        elif behind is not None:
            order.insert(order.index(behind), uid)
        else:
            order.append(uid)
    return order
