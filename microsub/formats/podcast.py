"""Elements that only podcasts have: chapters, people, transcripts, seasons, support.

Podcasting 2.0 (https://podcasting2.org/docs/podcast-namespace), Podlove Simple Chapters
(https://podlove.org/simple-chapters), and the numbers and warnings of iTunes. `xml.elements` collects the elements
under one name, in the order of the document.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar

from microsub.base.urls import safe_url
from microsub.formats.entry_id import fold
from microsub.formats.xml.media import number
from microsub.model.jf2 import Card, Enclosure, Participant, Podcast, PodcastChapter, Support, Transcript

MAX_CHAPTERS = 100
MAX_PARTS = 20
"""People, transcripts, files and pages for support, each."""

MAX_TEXTS = 50_000
"""Characters of all texts and addresses of one episode."""

_MAX_WORDS = 300
_MAX_WORD = 100
_DECIMAL = re.compile(r"\d{1,9}(?:\.\d{1,3})?")
_TIME = re.compile(r"(?:(?:(\d{1,3}):)?(\d{1,3}):)?(\d{1,6}(?:\.\d{1,3})?)")
_POINT = re.compile(r"geo:(-?\d{1,2}(?:\.\d+)?),(-?\d{1,3}(?:\.\d+)?)")
_ITUNES = frozenset({"itunes_season", "itunes_episode", "itunes_episodetype", "itunes_explicit"})
_EXPLICIT = frozenset({"yes", "true", "explicit"})
_TYPES = frozenset({"full", "trailer", "bonus"})

Node = Mapping[str, Any]
T = TypeVar("T")


def podcast_of(entry: Node, channel: Node, base: str) -> Podcast | None:
    """An entry's podcast elements; people, support and the warning are the channel's if the entry has none."""
    parts: list[Node] = entry.get("podcast") or []
    shared: list[Node] = channel.get("podcast") or []
    warning = channel.get("itunes_explicit")
    if not (parts or shared or warning or not _ITUNES.isdisjoint(entry)):
        return None  # most entries
    if not _is_episode(entry, parts):
        shared, warning = [], None
    people, support = _participants(parts, base), _support(parts, base)
    season = _first(parts, "season")
    chapters = next((url for node in _named(parts, "chapters") if (url := safe_url(node.get("url"), base))), None)
    return _filled(
        Podcast(
            season=_decimal(season.get("text")) or _decimal(entry.get("itunes_season")),
            season_name=season.get("name"),
            episode=_decimal(_first(parts, "episode").get("text")) or _decimal(entry.get("itunes_episode")),
            episode_type=kind if (kind := str(entry.get("itunes_episodetype") or "").lower()) in _TYPES else None,
            explicit=str(entry.get("itunes_explicit") or warning or "").lower() in _EXPLICIT,
            chapters=chapters,
            chapter=tuple(
                PodcastChapter(start, node.get("title"), safe_url(node.get("href"), base), safe_url(node.get("image")))
                for node in _named(parts, "chapter")
                if (start := _moment(node.get("start"))) is not None
            ),
            transcript=tuple(
                Transcript(url, node.get("type"), node.get("language"))
                for node in _named(parts, "transcript")
                if (url := safe_url(node.get("url"), base))
            ),
            person=people or _participants(shared, base),
            alternate=_alternates(parts, base),
            funding=support or _support(shared, base),
        )
    )


def place_of(entry: Node) -> Card | None:
    """The place that an episode is about."""
    for node in _named(entry.get("podcast") or [], "location"):
        name = fold(str(node.get("text") or ""))
        if (name or node.get("geo")) and node.get("rel") != "creator":
            point = _POINT.match(str(node.get("geo") or ""))
            latitude, longitude = point.groups() if point else (None, None)
            if point and (abs(float(point[1])) > 90 or abs(float(point[2])) > 180):
                latitude = longitude = None
            return Card(name=name or None, latitude=latitude, longitude=longitude)
    return None


def bounded_podcast(podcast: Podcast) -> Podcast | None:
    """The same with safe addresses, short texts and limited lists; None if nothing remains."""
    room = [MAX_TEXTS]
    return _filled(
        replace(
            podcast,
            season=_decimal(podcast.season),
            season_name=_words(podcast.season_name),
            episode=_decimal(podcast.episode),
            episode_type=podcast.episode_type if podcast.episode_type in _TYPES else None,
            chapters=_address(podcast.chapters),
            transcript=_kept(podcast.transcript, MAX_PARTS, room),
            person=_kept(podcast.person, MAX_PARTS, room),
            alternate=_kept(podcast.alternate, MAX_PARTS, room),
            funding=_kept(podcast.funding, MAX_PARTS, room),
            chapter=_kept(podcast.chapter, MAX_CHAPTERS, room),
        )
    )


def _is_episode(entry: Node, parts: Iterable[Node]) -> bool:
    return bool(parts) or any(link.get("rel") == "enclosure" for link in entry.get("links") or ())


def _filled(podcast: Podcast) -> Podcast | None:
    return podcast if podcast != Podcast() else None


def _named(parts: Iterable[Node], name: str) -> Iterable[Node]:
    return (node for node in parts if node.get("element") == name)


def _first(parts: Iterable[Node], name: str) -> Node:
    return next(iter(_named(parts, name)), {})


def _participants(parts: Iterable[Node], base: str) -> tuple[Participant, ...]:
    return tuple(
        Participant(name, node.get("role"), safe_url(node.get("href"), base), safe_url(node.get("img"), base))
        for node in _named(parts, "person")
        if (name := fold(str(node.get("text") or "")))
    )


def _support(parts: Iterable[Node], base: str) -> tuple[Support, ...]:
    return tuple(
        Support(url, fold(str(node.get("text") or "")) or None)
        for node in _named(parts, "funding")
        if (url := safe_url(node.get("url"), base))
    )


def _alternates(parts: Iterable[Node], base: str) -> tuple[Enclosure, ...]:
    """Other files with the same content, each by its first web address."""
    found: list[Enclosure] = []
    waiting: Node | None = None
    for node in parts:
        if node.get("element") == "alternateenclosure":
            waiting = node
        elif node.get("element") == "source" and waiting and (url := safe_url(node.get("uri"), base)):
            title = waiting.get("title") or (f"{waiting['height']}p" if waiting.get("height") else None)
            kind = node.get("contenttype") or waiting.get("type")
            found.append(Enclosure(url, kind, number(waiting.get("length")) or None, title=title))
            waiting = None
    return tuple(found)


def _decimal(value: object) -> str | None:
    text = str(value or "").strip()
    return text if _DECIMAL.fullmatch(text) else None


def _moment(value: object) -> float | None:
    """A chapter's start, `01:02:03.5` or `62`, in seconds."""
    found = _TIME.fullmatch(str(value or "").strip())
    if found is None:
        return None
    return _amount(int(found[1] or 0) * 3600 + int(found[2] or 0) * 60 + float(found[3]))


def _kept(values: Iterable[T], most: int, room: list[int]) -> tuple[T, ...]:
    """The first values whose first field is valid, up to `most`, as long as there is room for their texts."""
    found: list[T] = []
    for value in values:
        names = [one.name for one in fields(value)]  # type: ignore[arg-type]
        parts = {name: _CLEANED.get(name, _word)(getattr(value, name)) for name in names}
        if parts[names[0]] is None:
            continue
        room[0] -= sum(len(part) for part in parts.values() if isinstance(part, str))
        if len(found) == most or room[0] < 0:
            break
        found.append(replace(value, **parts))  # type: ignore[type-var]
    return tuple(found)


def _word(text: Any, most: int = _MAX_WORD) -> str | None:
    return (fold(text[: 4 * most])[:most] or None) if isinstance(text, str) else None


def _words(text: Any) -> str | None:
    return _word(text, _MAX_WORDS)


def _amount(value: Any) -> float | None:
    return round(float(value), 3) if isinstance(value, int | float) and 0 <= value < 2**53 else None


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and 0 <= value < 2**53 else None


def _address(url: Any) -> str | None:
    return safe_url(url) if isinstance(url, str) else None


_CLEANED: dict[str, Callable[[Any], str | float | None]] = {
    **dict.fromkeys(("url", "photo"), _address),
    **dict.fromkeys(("title", "name"), _words),
    **dict.fromkeys(("length", "duration"), _count),
    "start": _amount,
}
