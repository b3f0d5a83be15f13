"""Settings of a followed feed, given one by one under their names in backend.json: by commands, apps and pages."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields
from typing import Any

import orjson

from microsub import configuration
from microsub.base.errors import InvalidRequest
from microsub.configuration.document import describe, expected_by
from microsub.configuration.model import FeedConfig, PublicFeedConfig, decode, encode

FEED_SETTINGS = tuple(one.name for one in fields(FeedConfig) if one.name not in {"url", "sign_in"})
"""The names of the settings, in the order of the reference."""

_URL = "https://feed.example/"


def with_settings(feed: FeedConfig, given: Mapping[str, str]) -> FeedConfig:
    """The feed with these settings changed.

    A value is JSON, or text; an empty one restores the default. Raises InvalidRequest for an unknown name, and for a
    value that backend.json can't have.
    """
    if unknown := next((name for name in given if name not in FEED_SETTINGS), None):
        raise InvalidRequest(f"'{unknown[:80]}' isn't a setting of a feed: expected one of {', '.join(FEED_SETTINGS)}")
    entry = {**_as_object(feed), **{name: _value(name, text) for name, text in given.items()}, "url": _URL}
    entry = {name: value for name, value in entry.items() if value != ""}
    shape = {"users": {"user": {"channels": [{"uid": "channel", "feeds": [entry]}]}}}
    for error in configuration.check_shape(shape):
        where, found = ".".join(map(str, error["loc"][6:])) or "settings", describe(error["input"])
        raise InvalidRequest(f"invalid '{where}': found {found}, expected {expected_by(error)}")
    return decode(FeedConfig, {**entry, "url": feed.url})


def feed_settings(feed: FeedConfig) -> dict[str, Any]:
    """The settings that differ from their defaults, as in backend.json."""
    return {name: value for name, value in _as_object(feed).items() if name != "url"}


def _as_object(feed: PublicFeedConfig) -> dict[str, Any]:
    said = encode(feed)
    return said if isinstance(said, dict) else {"url": said}


def _value(name: str, text: str) -> Any:
    if name != "name":
        with suppress(orjson.JSONDecodeError):
            return orjson.loads(text)
    return text
