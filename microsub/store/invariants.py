"""What always holds for a channel's keys, as a check that can run on a live store.

posts = unread + read; hidden and posts have nothing in common; `gone` has nothing in common with either; what is unread
has the score of the timeline; `gone` carries a reason. The sets are read one after the other, since a script over long
timelines would hold up Redis: on a store that is being written to, a finding counts only when it is found again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from microsub.store.check.seen import Reader, is_text
from microsub.store.port import Redis
from microsub.store.scripts import load
from microsub.store.timelinekeys import Reason, batches, distinct, set_keys

UNSHOWN = ("unread, but not shown", "read, but not shown")
"""What is said of marks without a post."""


@dataclass(frozen=True, slots=True)
class Violation:
    """An id that breaks a sentence of the module's docstring, in one channel."""

    user: str
    uid: str
    item: str
    what: str


async def violations(redis: Redis, user: str, uid: str) -> list[Violation]:
    """Everything that is wrong with one channel's keys; empty when all is well."""
    script_keys = set_keys(user, uid)
    reader = Reader(redis, set())
    found = await reader.walk("ZSCAN", script_keys)
    wrong = judge([scores(found[key]) for key in script_keys])
    return [Violation(user, uid, item, what) for what, items in wrong.items() for item in sorted(items)]


def judge(sets: Sequence[Mapping[str, float]]) -> dict[str, set[str]]:
    """The ids that break each sentence. `sets` are the channel's, in the order of `timelinekeys.set_keys`."""
    posts, unread, read, hidden, hidden_read, gone = sets
    return {
        "both unread and read": unread.keys() & read.keys(),
        "shown, but neither unread nor read": posts.keys() - unread.keys() - read.keys(),
        UNSHOWN[0]: unread.keys() - posts.keys(),
        UNSHOWN[1]: read.keys() - posts.keys(),
        "shown and hidden": posts.keys() & hidden.keys(),
        "read as hidden, but not hidden": hidden_read.keys() - hidden.keys(),
        "gone and shown": gone.keys() & posts.keys(),
        "gone and hidden": gone.keys() & hidden.keys(),
        "unread at another place than shown": {
            item for item in unread.keys() & posts.keys() if unread[item] != posts[item]
        },
        "gone without a reason": {item for item, at in gone.items() if not _reasoned(at)},
    }


def scores(flat: Sequence[bytes]) -> dict[str, float]:
    """A flat reply of members and scores as a dict."""
    # What is no text at all `check.contents` finds.
    return {item.decode(): float(score) for item, score in zip(flat[0::2], flat[1::2], strict=True) if is_text(item)}


async def repair(redis: Redis, user: str, uid: str, now: float) -> list[Violation]:
    """Mend what `violations` finds, and return that. In doubt nothing comes back as unread."""
    found = await violations(redis, user, uid)
    for batch in batches(distinct(violation.item for violation in found)):
        await redis.script(load("timeline_repair"), set_keys(user, uid), [int(now), *batch])
    return found


def _reasoned(score: float) -> bool:
    return (score % 1) * 16 in set(Reason)
