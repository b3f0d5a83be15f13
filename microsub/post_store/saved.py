"""A post as a program saves it, with jf2's names (https://jf2.spec.indieweb.org/).

Users see the fields that jf2 defines; a program may save any others too. Names may be written with `_` instead of `-`.

All errors are InvalidRequest and name the field, the found value and the expected one.
"""

from __future__ import annotations

import json
import math
import re
import reprlib
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import orjson

from microsub.base.errors import InvalidRequest
from microsub.base.urls import safe_url
from microsub.formats.normalise import RawEntry, finish
from microsub.model.jf2 import CARDS, LINK_LISTS, Card, Enclosure, Entry

MOST_BYTES = 1_000_000
"""Maximum bytes of a post's fields as JSON."""

_TEXTS = ("type", "uid", "name", "summary", "rsvp", "start", "end")
_LINKS = ("featured", "quotation_of")
_CARD = frozenset(Card.__dataclass_fields__)
_SHOWN = 80

_DEEPEST = 200
"""Maximum nesting of lists and objects. The JSON that contains them must still be readable by all JSON parsers."""

_REPR = reprlib.Repr()
_REPR.maxlevel, _REPR.maxlist, _REPR.maxdict = 4, 20, 20
_REPR.maxother = _REPR.maxlong = _REPR.maxstring = 2 * _SHOWN
"""Limits of shown values: a list that contains another one twice, and so on, would be endless if written in full."""

_LONG_NUMBER = re.compile(r"\d{19}")
"""Digits that might be a whole number beyond 64 bits, which orjson makes inexact."""


def entry_of(fields: Mapping[str, Any], guid: str, published: datetime, source: str, author: Card | None) -> Entry:
    """The entry that users see of these fields, sanitised.

    Links are relative to the post's URL, otherwise to `source`.

    `author` is used if the post names none.
    """
    url = safe_url(_text(fields, "url"), source)
    base = url or source
    values: dict[str, Any] = {name: _text(fields, name) for name in _TEXTS}
    values |= {name: safe_url(_text(fields, name), base) for name in _LINKS}
    values |= {name: _links(_texts(fields, name), base) for name in LINK_LISTS}
    values |= {name: _card(fields, name, base) for name in CARDS}
    updated = _found(fields, "updated")
    entry = Entry(
        **{**values, "type": values["type"] or "entry"},
        guid=guid,
        url=url,
        category=_texts(fields, "category"),
        published=published,
        updated=None if updated is None else moment("updated", updated),
        enclosure=_enclosures(fields, base),
    )
    html, text = _content(fields)
    return finish(RawEntry(entry, base, html=html, text=text), None if entry.author else author)


_USED = frozenset({"guid", "timestamp", "url", "updated", "category", "content", "enclosure"}).union(
    _TEXTS, _LINKS, LINK_LISTS, CARDS
)
"""Names of fields that readers see, with `_`, and of the two that every post has."""


def unused(fields: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of the fields that no reader sees, in alphabetical order."""
    return tuple(sorted(name for name in fields if name.replace("-", "_") not in _USED))


def moment(name: str, value: object) -> datetime:
    """A time in the forms that programs use: an aware datetime, Unix seconds, or ISO 8601 with an offset."""
    expected = "Unix seconds, a datetime with a time zone, or ISO 8601 with an offset"
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return datetime.fromtimestamp(value, UTC)
        found = datetime.fromisoformat(value) if isinstance(value, str) else value
        if isinstance(found, datetime) and found.tzinfo is not None:
            return found.astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        pass
    raise wrong(name, value, expected)


def dumps(value: object) -> bytes:
    """JSON with whole numbers of any size. Raises orjson.JSONEncodeError."""
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError as error:
        try:
            return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
        except (ValueError, TypeError, RecursionError):
            raise error from None


def loads(text: str | bytes) -> Any:
    """Read the output of `dumps` back. Raises ValueError for invalid JSON."""
    if isinstance(text, bytes):
        text = text.decode()
    return json.loads(text) if _LONG_NUMBER.search(text) else orjson.loads(text)


def as_mapping(name: str, value: object) -> Mapping[str, Any]:
    """The argument `name`, which must be a mapping."""
    if not isinstance(value, Mapping):
        raise wrong(name, value, "a mapping of names to values")
    return value


def as_json(fields: Mapping[str, Any]) -> bytes:
    """The fields as JSON, from which exactly the same fields can be read."""
    for name, value in fields.items():
        if not isinstance(name, str) or not name:
            raise InvalidRequest(f"a field's name can't be used: found {_shown(name)}, expected a text")
        if _is_deep(value):
            raise wrong(name, value, f"lists and objects nested at most {_DEEPEST} deep")
        try:
            again = loads(dumps(value))
        except (ValueError, orjson.JSONEncodeError):
            again = math.nan
        if not _same(value, again):
            expected = "JSON values: texts, numbers, true, false, None, lists, and objects with texts as names"
            raise wrong(name, value, expected)
    data = dumps(dict(fields))
    if len(data) > MOST_BYTES:
        raise InvalidRequest(f"the post is too large: found {len(data)} bytes as JSON, expected {MOST_BYTES} at most")
    return data


def wrong(name: str, value: object, expected: str) -> InvalidRequest:
    """The error for a field with an invalid value."""
    return InvalidRequest(f"'{name}' can't be used: found {_shown(value)}, expected {expected}")


def _is_deep(value: object) -> bool:
    """Whether the value is nested too deeply, or contains itself."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(_DEEPEST):
        # Each part once: the same part is equally deep wherever it occurs.
        parts = {id(part): part for one in level for part in (one.values() if isinstance(one, dict) else one)}
        level = [part for part in parts.values() if isinstance(part, dict | list)]
        if not level:
            return False
    return True


def _same(value: object, again: object) -> bool:
    """Whether two values are equal and of equal type: a tuple isn't a list, 1 isn't 1.0."""
    if isinstance(value, dict) and isinstance(again, dict):
        return value.keys() == again.keys() and all(_same(value[name], again[name]) for name in value)
    if isinstance(value, list) and isinstance(again, list):
        return len(value) == len(again) and all(map(_same, value, again))
    return type(value) is type(again) and value == again


def _found(fields: Mapping[str, Any], name: str) -> Any:
    """The value; None if it is missing or empty."""
    value = fields.get(name.replace("_", "-"))
    if value is None:
        value = fields.get(name)
    return None if value in ("", [], {}) else value


def _text(fields: Mapping[str, Any], name: str) -> str | None:
    value = _found(fields, name)
    if value is None or isinstance(value, str):
        return value
    raise wrong(name.replace("_", "-"), value, "a text")


def _texts(fields: Mapping[str, Any], name: str) -> tuple[str, ...]:
    value = _found(fields, name)
    values = [] if value is None else [value] if isinstance(value, str) else value
    if isinstance(values, list) and all(isinstance(one, str) for one in values):
        return tuple(values)
    raise wrong(name.replace("_", "-"), value, "a text or a list of texts")


def _links(urls: tuple[str, ...], base: str) -> tuple[str, ...]:
    return tuple(safe for url in urls if (safe := safe_url(url, base)))


def _card(fields: Mapping[str, Any], name: str, base: str) -> Card | None:
    value = _found(fields, name)
    if value is None:
        return None
    if isinstance(value, str):
        is_url = value.lower().startswith(("http://", "https://"))
        return Card(url=value) if is_url else Card(name=value)
    if not isinstance(value, dict):
        raise wrong(name, value, "a name, a URL, or an object with 'name', 'url' and 'photo'")
    parts = {key.replace("-", "_"): part for key, part in value.items()}
    for key in _CARD & parts.keys():
        if not isinstance(parts[key], str):
            raise wrong(f"{name}.{key}", parts[key], "a text")
    card = Card(**{key: parts[key] for key in _CARD & parts.keys()})
    return replace(card, url=safe_url(card.url, base), photo=safe_url(card.photo, base))


def _content(fields: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """HTML and plain text; a single text is HTML."""
    value = _found(fields, "content")
    if value is None or isinstance(value, str):
        return value, None
    if isinstance(value, dict):
        html, text = value.get("html"), value.get("text")
        if isinstance(html, str | None) and isinstance(text, str | None):
            return html, text
    raise wrong("content", value, "HTML, or an object with the texts 'html' and 'text'")


def _enclosures(fields: Mapping[str, Any], base: str) -> tuple[Enclosure, ...]:
    value = _found(fields, "enclosure")
    values = [] if value is None else value if isinstance(value, list) else [value]
    found = [_enclosure(one) for one in values]
    return tuple(replace(one, url=safe) for one in found if (safe := safe_url(one.url, base)))


def _enclosure(value: Any) -> Enclosure:
    if isinstance(value, str):
        return Enclosure(value)
    if not isinstance(value, dict) or not isinstance(value.get("url"), str):
        raise wrong("enclosure", value, "an object with 'url', or a list of these")
    for name in ("type", "title"):
        if not isinstance(value.get(name), str | None):
            raise wrong(f"enclosure.{name}", value[name], "a text")
    for name in ("length", "duration"):
        number = value.get(name)
        if number is not None and (type(number) is not int or not 0 <= number < 2**63):
            raise wrong(f"enclosure.{name}", number, "a whole number of bytes or seconds, below 2**63")
    return Enclosure(**{name: value[name] for name in Enclosure.__dataclass_fields__ if name in value})


def _shown(value: object) -> str:
    try:
        text = repr(value) if isinstance(value, str) else _REPR.repr(value)
    except Exception:  # nested too deeply, a number with too many digits, or an object whose repr fails
        text = f"a {type(value).__name__} that can't be shown"
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
