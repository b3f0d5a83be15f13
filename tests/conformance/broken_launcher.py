"""Starts the real server broken on purpose: `python -m tests.conformance.broken_launcher VARIANT serve …`.

Each variant replaces one function of the product before the command runs. The product contains no code for it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

VARIANTS: dict[str, tuple[Callable[[], None], tuple[str, ...]]] = {}
"""How each variant is made, and the requirements that must catch it."""


def variant(*caught_by: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Add the decorated patch, which these requirements must catch."""

    def add(patch: Callable[[], None]) -> Callable[[], None]:
        VARIANTS[patch.__name__.replace("_", "-")] = (patch, caught_by)
        return patch

    return add


@variant("paging.walk", "paging.insertion", "paging.before-adjacent")
def cursor_ties_lost() -> None:
    """A cursor contains only the time of an item, in whole seconds."""
    from microsub.model.reader import Cursor

    decode = Cursor.decode

    def coarse(text: str, parameter: str) -> Cursor:
        return replace(decode(text, parameter), score=decode(text, parameter).score.partition(".")[0], item="0")

    Cursor.decode = staticmethod(coarse)  # type: ignore[assignment,method-assign]


@variant("revisions.read-stays", "revisions.edit-keeps-read", "revisions.counts")
def read_items_come_back() -> None:
    """Each delivery of a poll marks its whole channel as unread."""
    from microsub.posts.items import Items
    from microsub.timelines.add import Adder
    from microsub.timelines.pages import walk_rows
    from microsub.timelines.read_state import ReadState

    add_to = Adder.add_to

    async def deliver(self: Adder, targets: Any, *rest: Any) -> Any:
        result = await add_to(self, targets, *rest)
        read_state = ReadState(self._redis, Items(self._redis).scores)
        for one in targets:
            async for rows in walk_rows(self._redis, one.user, one.uid):
                await read_state.mark(one.user, one.uid, [row.id for row in rows], "unread", time.time())
        return result

    Adder.add_to = deliver  # type: ignore[assignment,method-assign]


@variant("isolation.timeline", "isolation.global")
def pages_of_another_user() -> None:
    """Every page shows alice's items."""
    from microsub.timelines import views

    read_page = views.read_page

    async def of_alice(redis: Any, user: str, uid: str, query: Any, now: float, credential: Any, *rest: Any) -> Any:
        scope = (await read_page(redis, user, "global", query, now, credential, *rest))[0]
        return scope, (await read_page(redis, "alice", uid, query, now, None, *rest))[1]

    views.read_page = of_alice  # type: ignore[assignment]


@variant("channels.unread", "reading.count", "muting.count")
def counts_off_by_one() -> None:
    """The list of channels counts one item too many."""
    from microsub.timelines.channels import Channels

    counts_with_token = Channels.counts_with_token

    async def counted(self: Channels, *arguments: Any) -> Any:
        grant, names, counts = await counts_with_token(self, *arguments)
        return grant, names, [b"%d" % (int(count) + 1) for count in counts]

    Channels.counts_with_token = counted  # type: ignore[method-assign]


@variant("replies.content-type", "replies.no-store")
def other_headers() -> None:
    """The content type has a parameter, and replies may be cached."""
    from microsub.web import responses

    responses.JSON[0] = (b"content-type", b"application/json; charset=utf-8")
    responses.JSON[1] = (b"cache-control", b"max-age=60")


@variant("removing.marked", "revisions.removed-stays", "removing.refollowed")
def removed_items_come_back() -> None:
    """`remove` only marks as read."""
    from microsub.api import timeline
    from microsub.posts.items import Items
    from microsub.timelines.read_state import ReadState

    async def only_mark(redis: Any, user: str, uid: str, ids: Any, _how: Any, now: float) -> list[str]:
        return list(await ReadState(redis, Items(redis).scores).mark(user, uid, ids, "read", now))

    timeline.take_out = only_mark


def main() -> None:
    """Patch, then run the command with the worker in this process; a separate worker process wouldn't be patched."""
    VARIANTS[sys.argv.pop(1)][0]()
    from microsub.cli import main as command
    from microsub.cli import serving
    from microsub.cli.serving import process

    serving.start = lambda settings, parts: process.start(settings, replace(parts, worker="inside"))
    command()


if __name__ == "__main__":
    main()
