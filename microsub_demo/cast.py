"""The posts of the demo's blogs at an instant.

A blog's `lines` are sentences with slots: `{thing}` is filled from `words["thing"]`. Post `n` appears
`n * every + offset` seconds after `BEGINNING`, and takes its sentences and fillings from a generator seeded with the
blog's name and `n`. So nothing is stored, and two processes agree. A blog with edits shows revision `r` of a post once
the post is `edits[r-1]` seconds old. Pure.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from microsub_demo.blog import Blog
from microsub_demo.lively import LIVELY
from microsub_demo.seldom import SELDOM

BLOGS: tuple[Blog, ...] = (*LIVELY, *SELDOM)
"""All blogs, in the order of their list."""

BY_SLUG: Mapping[str, Blog] = {blog.slug: blog for blog in BLOGS}


SEED = 20
"""The default seed; another one gives other texts at the same times."""

BEGINNING = 1_767_225_600
"""The time of post 0 of every blog: 2026-01-01, in Unix seconds. Older posts have negative numbers."""

PLACES = (
    ("Little Quay", "54.3270", "-2.7460"),
    ("The Eel Weir", "54.3301", "-2.7522"),
    ("Tram Depot Café", "54.3255", "-2.7391"),
)

REPLIES = ("Agreed, and I'd go further.", "This made my morning.", "Is that so? I always did it the other way round.")


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a checkin; coordinates in decimal degrees."""

    name: str
    latitude: str
    longitude: str


@dataclass(frozen=True, slots=True)
class InventedPost:
    """A post at an instant; `target`: the URL that it replies to, likes or bookmarks."""

    blog: Blog
    number: int
    kind: str
    published: datetime
    updated: datetime
    title: str | None
    paragraphs: tuple[str, ...]
    tags: tuple[str, ...]
    revision: int = 0
    place: Place | None = None
    starts: datetime | None = None
    ends: datetime | None = None
    target: tuple[Blog, int] | None = None

    @property
    def path(self) -> str:
        """The permalink's path."""
        return path_of(self.blog, self.number)

    @property
    def has_photo(self) -> bool:
        """Whether it has a picture."""
        return self.kind in {"photo", "strip"}


def path_of(blog: Blog, number: int) -> str:
    """The path of a post's permalink."""
    return f"/{blog.slug}/{number}"


def newest_number(blog: Blog, now: float) -> int:
    """The number of the newest post at `now` (Unix seconds)."""
    return int((now - BEGINNING - blog.offset) // blog.every)


def time_of(blog: Blog, number: int) -> int:
    """The time of a post's publication, in Unix seconds."""
    return BEGINNING + number * blog.every + blog.offset


def posts(blog: Blog, now: float, seed: int = SEED) -> tuple[InventedPost, ...]:
    """The posts that the blog's feed lists at `now` (Unix seconds), newest first."""
    newest = newest_number(blog, now)
    return tuple(post(blog, number, now, seed) for number in range(newest, newest - blog.window, -1))


def post(blog: Blog, number: int, now: float, seed: int = SEED) -> InventedPost:
    """One post at `now` (Unix seconds), which must not be before its publication."""
    chance = random.Random(f"{seed}/{blog.slug}/{number}")  # noqa: S311 - invented texts, no secret
    published = datetime.fromtimestamp(time_of(blog, number), UTC)
    due = [timedelta(seconds=age) for age in blog.edits if published.timestamp() + age <= now]
    kind = blog.kinds[number % len(blog.kinds)]
    paragraphs = _paragraphs(blog, kind, chance)
    title = _title(blog, kind, number, chance)
    for revision in range(1, len(due) + 1):
        paragraphs = (*paragraphs, f"Correction {revision}: {_fill(chance.choice(blog.lines), blog, chance)}")
    return InventedPost(
        blog=blog,
        number=number,
        kind=kind,
        published=published,
        updated=published + (due[-1] if due else timedelta()),
        title=f"{title} (revised {len(due)}×)" if title and due else title,
        paragraphs=paragraphs,
        tags=tuple(sorted(chance.sample(blog.tags, min(len(blog.tags), 2)))) if kind not in _TERSE else (),
        revision=len(due),
        place=Place(*chance.choice(PLACES)) if kind in {"checkin", "event"} else None,
        starts=published + timedelta(days=7) if kind == "event" else None,
        ends=published + timedelta(days=7, hours=2) if kind == "event" else None,
        target=_target(blog, kind, number, chance),
    )


_TERSE = frozenset({"like", "rsvp"})
_TITLED = frozenset({"article", "episode", "link", "strip"})
_ANSWERS = frozenset({"reply", "like", "bookmark", "link"})


def _fill(line: str, blog: Blog, chance: random.Random) -> str:
    filled = line.format(**{slot: chance.choice(words) for slot, words in blog.words.items()})
    return filled[0].upper() + filled[1:]


def _title(blog: Blog, kind: str, number: int, chance: random.Random) -> str | None:
    if kind == "event":
        return f"An evening of {chance.choice(blog.words['thing'])}, no. {number % 100}"
    if kind in _TITLED or blog.format == "jsonfeed":
        return _fill(chance.choice(blog.titles), blog, chance)
    return None


def _paragraphs(blog: Blog, kind: str, chance: random.Random) -> tuple[str, ...]:
    if kind in _TERSE:
        return ()
    if kind == "reply":
        return (chance.choice(REPLIES),)
    wanted = blog.length if kind in {"article", "episode"} else 1
    picked: Sequence[str] = chance.sample(blog.lines, min(wanted, len(blog.lines)))
    picked = [*picked, *chance.choices(blog.lines, k=wanted - len(picked))]
    return tuple(_fill(line, blog, chance) for line in picked)


def _target(blog: Blog, kind: str, number: int, chance: random.Random) -> tuple[Blog, int] | None:
    if kind == "rsvp":
        return blog, number - 1
    if kind not in _ANSWERS:
        return None
    other = chance.choice([one for one in BLOGS if one is not blog])
    return other, newest_number(other, time_of(blog, number))
