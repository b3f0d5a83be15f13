"""Pages of timelines by this page.lua and by that of another commit: the engine's processor time, in turns, in one run.

`python -m benchmarks.unread COMMIT`. The engine holds each user three times: as the other version does, which before
layout 13 has unread items in a sorted set; as this one does when a first page is read; and as it does
later, with the newest unread items of each channel in their order. Channels have `--size` items whose ids are nearly in
the order of their times, and a share of them is unread: here and there, or only among the older half. All must show the
same.
"""

from __future__ import annotations

import argparse
import random
import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any, cast

from redis import Redis

from benchmarks.refresh.lines import ROOT
from benchmarks.report import aligned
from microsub.model.reader import GLOBAL, SAVED
from microsub.redis import keys
from microsub.redis.embedded.server import start_embedded
from microsub.redis.scripts import NamedScript, load
from microsub.timelines.pages import sorting

SHARES = (1.0, 0.7, 0.3, 0.1, 0.02)
CHANNELS = (1, 5, 50)
MANY = 50
"""Channels from which on each has a tenth of the items."""
PAGE, DEEP = 20, 5
_CALLS = 200
"""Calls of one turn: they go out together, so the engine does little else."""


@dataclass(frozen=True, slots=True)
class Page:
    """The first page of a view of a channel, or of `global`, or the one that is `DEEP` pages below."""

    user: str
    uid: str
    view: str
    is_deep: bool


@dataclass(frozen=True, slots=True)
class Version:
    """A page.lua, whether it reads unread items of the form before layout 13, and the end of its users' names."""

    script: NamedScript
    is_old: bool
    ending: str

    def arguments(self, page: Page, place: tuple[str, str, str]) -> Sequence[Any]:
        """The call of that page, next to `place`: direction, score and id."""
        name = page.user + self.ending
        direction, *cursor = place
        walked = keys.unread if self.is_old and page.view else keys.posts
        named = (keys.channel, walked, keys.unread, keys.apart)
        _, names, arguments = self.script(
            channels=keys.channels(name),
            user=keys.user(name),
            saved=keys.posts(name, SAVED),
            behind=keys.behind(name),
            limit=PAGE,
            direction=direction,
            cursor=cursor,
            now=0,
            patterns=[keys.pattern(one, name) for one in named],
            uid=page.uid,
            **({} if self.is_old else {"view": page.view}),
        )
        return (len(names), *names, *arguments)


Versions = tuple[Version, Version, Version]
"""The other one; this one at the first page, and later."""
_SORTED, _FIRST, _LATER = "-sorted", "-first", ""


def script_of(commit: str) -> Version:
    """The page.lua of a commit, with the parts that it includes."""

    def text(path: str) -> str:
        return subprocess.run(
            ["git", "show", f"{commit}:{path}"], cwd=ROOT, check=True, capture_output=True, text=True
        ).stdout

    own = text("microsub/timelines/lua/page.lua")
    parts = re.findall(r"^-- include: (\w+)$", own, re.MULTILINE)
    texts = [text(f"microsub/redis/lua/parts/{part}.lua") for part in parts]
    return Version(NamedScript("page", "\n".join([*texts, own])), "unread" not in parts, _SORTED)


def fill(redis: Redis, user: str, channels: int, size: int, share: float, *, aged: bool, is_old: bool) -> None:
    """A user in all forms; `aged`: what is unread is in the older half of each channel."""
    chance = random.Random(f"{channels} {size} {share} {aged}")
    # Ids are assigned at the discovery, which follows the publication by up to some hours.
    found = sorted((at * 60 + chance.expovariate(1 / 7200), at * 60) for at in range(channels * size))
    items = [(number + 10_000_000, 1_700_000_000 + when) for number, (_, when) in enumerate(found)]
    homes = [items[number::channels] for number in range(channels)] if channels > 1 else [items]
    for name in (user + _SORTED, user + _FIRST, user + _LATER):
        redis.hset(keys.user(name), "me", "x")
    for number, home in enumerate(homes):
        uid = f"channel{number}"
        ordered = sorted(home, key=lambda item: item[1])
        among = ordered[: size // 2] if aged else ordered
        unread = chance.sample(among, min(len(among), round(share * size)))
        for ending in (_SORTED, _FIRST, _LATER):
            name = user + ending
            redis.zadd(keys.channels(name), {uid: number})
            redis.hset(keys.channel(name, uid), "name", uid)
            redis.zadd(keys.posts(name, uid), {str(item): when for item, when in home})
            if unread and ending == _SORTED and is_old:
                redis.zadd(keys.unread(name, uid), {str(item): when for item, when in unread})
            elif unread:
                redis.sadd(keys.unread(name, uid), *(item for item, _ in unread))


def spent(redis: Redis) -> float:
    """Processor seconds of the engine's main thread so far."""
    found = redis.info("cpu")
    return float(found["used_cpu_user_main_thread"]) + float(found["used_cpu_sys_main_thread"])


def timed(redis: Redis, version: Version, arguments: Sequence[Any]) -> float:
    """Microseconds of the engine for one of `_CALLS` calls."""
    line = redis.pipeline(transaction=False)
    for _ in range(_CALLS):
        line.evalsha(version.script.sha, *arguments)
    before = spent(redis)
    line.execute()
    return (spent(redis) - before) / _CALLS * 1e6


def compared(redis: Redis, versions: Versions, turns: int, page: Page) -> list[float]:
    """The medians of all versions for that page. Raises RuntimeError if they show different items."""
    place = ("", "0", "")
    for _ in range(DEEP if page.is_deep else 0):
        _, _, older, rows, *_ = _replies(redis, versions, page, place)
        if older:
            item, score = rows.split()[-2:]
            place = ("after", score.decode(), item.decode())
    _replies(redis, versions, page, place)
    took: list[list[float]] = [[] for _ in versions]
    for turn in range(turns):
        for at in range(len(versions)):
            one = (at + turn) % len(versions)
            took[one].append(timed(redis, versions[one], versions[one].arguments(page, place)))
    return [median(some) for some in took]


def _replies(redis: Redis, versions: Versions, page: Page, place: tuple[str, str, str]) -> list[Any]:
    before, *others = (
        cast("list[Any]", redis.evalsha(one.script.sha, *one.arguments(page, place))) for one in versions
    )
    for other in others:
        if before[2:5] != other[2:5]:
            raise RuntimeError(f"{page}: before {before[2:5]}, now {other[2:5]}")
    return before


def ordered(redis: Redis, user: str, channels: int) -> float:
    """Put the newest unread items of each channel into their order, as the first page does: microseconds for one."""
    calls = sorting(user, [f"channel{number}" for number in range(channels)])
    redis.script_load(calls[0][0].text)
    before = spent(redis)
    for script, names, arguments in calls:
        redis.evalsha(script.sha, len(names), *names, *arguments)
    return (spent(redis) - before) / channels * 1e6


def rows(redis: Redis, versions: Versions, size: int, turns: int, channels: Sequence[int]) -> Iterator[Sequence[str]]:
    """The table: a row for each number of channels, share of unread items, and page."""
    yield (
        "channels",
        "unread",
        "page",
        "before, µs",
        "first, µs",
        "then, µs",
        "first",
        "then",
        "to order a channel, µs",
    )
    for number, (share, aged) in product(channels, (*((share, False) for share in SHARES), (0.1, True))):
        user, uid = f"user-{number}-{share}-{aged}", "channel0" if number == 1 else GLOBAL
        fill(redis, user, number, size // 10 if number >= MANY else size, share, aged=aged, is_old=versions[0].is_old)
        sorting = ordered(redis, user, number)
        for view, is_deep in product(("", "unread") if share == SHARES[1] else ("unread",), (False, True)):
            before, first, then = compared(redis, versions, turns, Page(user, uid, view, is_deep))
            name = f"{view or 'all'}, {'deep' if is_deep else 'first'}"
            form = f"{share:.0%}{', old ones' if aged else ''}"
            times = (f"{one:.0f}" for one in (before, first, then))
            yield (f"{number}", form, name, *times, f"{first / before:.2f}", f"{then / before:.2f}", f"{sorting:.0f}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("commit", help="the commit to compare with")
    parser.add_argument("--size", type=int, default=2000, help="items of a channel (default: %(default)s)")
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--channels", type=int, nargs="+", default=CHANNELS)
    given = parser.parse_args()
    page = load("page")
    versions = script_of(given.commit), Version(page, False, _FIRST), Version(page, False, _LATER)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="microsub-unread-")))
        engine = start_embedded(folder / "data")
        stack.callback(engine.stop)
        redis = Redis(unix_socket_path=engine.url.partition("://")[2])
        for one in versions:
            redis.script_load(one.script.text)
        print(aligned([*rows(redis, versions, given.size, given.turns, given.channels)]))


if __name__ == "__main__":
    main()
