"""The conditions after a storm: each post of the publishers and each acknowledged post of the hub and the source is in
all its timelines, once, in the publisher's version. Acknowledged marks and removals hold, and only poison is among the
dead letters.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import orjson

from microsub.work import DeadLetters

if TYPE_CHECKING:
    from tests.chaos.storm import Storm

POISON = 4
"""Messages that no stage understands."""

_ALL = 5000


async def verdict(storm: Storm) -> list[str]:
    """All errors, as sentences; empty if there are none."""
    wrong = [*await missing(storm), *await outdated(storm), *await _doubles(storm), *await _forgotten_marks(storm)]
    back = storm.removed.keys() & {row.id for row in await storm.it.rows("bob", "all", _ALL)}
    wrong += [f"post {storm.removed[item]} was removed, and is back" for item in sorted(back)]
    letters = await _letters(storm)
    wrong += [f"a dead letter that is no poison: {letter}" for letter in letters if not letter.startswith("poison ")]
    return wrong + [f"poison that is no dead letter: {n}" for n in range(POISON) if f"poison {n}" not in letters]


async def missing(storm: Storm) -> list[str]:
    """Posts that are missing in timelines, or at a subscriber to one."""
    wrong = []
    for (user, uid), numbers in storm.places.items():
        wanted = _published(storm, numbers)
        if user == "bob":
            wanted -= set(storm.leaving.values())
        gone = wanted - {number for number, _ in await _found(storm, user, uid)}
        wrong += [f"post {number} is missing in {user}/{uid}" for number in sorted(gone)]
    newest = max(_published(storm, storm.places["alice", "pushed"]))
    if f'"Post {newest}, '.encode() not in storm.sent_on:
        wrong.append(f"post {newest} was not delivered by our own hub")
    return wrong


async def outdated(storm: Storm) -> list[str]:
    """Posts without their last edit."""
    wrong = []
    for (user, uid), numbers in storm.places.items():
        titles = {number: storm.blogs[blog].title(number) for blog in numbers for number, _ in storm.blogs[blog].posts}
        wrong += [
            f"post {number} is called '{title}' in {user}/{uid}, and not '{titles[number]}'"
            for number, title in await _found(storm, user, uid)
            if titles.get(number, title) != title
        ]
    return wrong


async def _doubles(storm: Storm) -> list[str]:
    wrong = []
    for (user, uid), numbers in storm.places.items():
        counts = Counter(number for number, _ in await _found(storm, user, uid))
        wrong += [f"post {number} is {count} times in {user}/{uid}" for number, count in counts.items() if count > 1]
        unknown = counts.keys() - _published(storm, numbers)
        # A post may have arrived before its acknowledgement.
        unknown -= {storm.unsent} | ({storm.undelivered[0]} if storm.undelivered else set())
        wrong += [f"post {number} is a stranger in {user}/{uid}" for number in unknown]
    return wrong


async def _forgotten_marks(storm: Storm) -> list[str]:
    state = {row.id: row.is_read for row in await storm.it.rows("bob", "all", _ALL)}
    return [
        f"item {item} was marked {'read' if is_read else 'unread'}, and is not"
        for item, is_read in storm.marked.items()
        if state.get(item) != is_read
    ]


async def _letters(storm: Storm) -> list[str]:
    """A description of each dead letter."""
    found = []
    for letter in await DeadLetters(storm.it.redis).list(1000):
        text = letter.fields.get("poison")
        found.append(f"poison {text.decode()}" if text else f"{letter.stage}: {letter.why}")
    return found


async def _found(storm: Storm, user: str, uid: str) -> list[tuple[int, str]]:
    """Numbers and titles of the posts in a timeline, newest first, duplicates included; 0 for an id without item."""
    data = await storm.it.items.data([row.id for row in await storm.it.rows(user, uid, _ALL)])
    posts = [orjson.loads(one) if one else {"url": "0", "name": ""} for one in data]
    return [(int(post["url"].rpartition("/")[2]), post["name"]) for post in posts]


def _published(storm: Storm, blogs: set[int]) -> set[int]:
    """The numbers of all posts of these blogs."""
    return {number for blog in blogs for number, _ in storm.blogs[blog].posts}
