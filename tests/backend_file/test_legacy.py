"""The single-user file of the Go server, in its own form and upgraded."""

from __future__ import annotations

import json
from typing import Any

import pytest

from microsub.configuration.document import BackendReport, examine
from microsub.configuration.legacy import is_legacy, user_name
from microsub.configuration.model import ChannelConfig, FeedConfig
from microsub.model.settings import Filters, OwnChannelSettings

A, B = "https://a.example/feed", "https://b.example/feed"

OLD: dict[str, Any] = {
    "Channels": {
        "0001": {"uid": "0001", "name": "Tech", "unread": 12},
        "home": {"uid": "home", "name": "Home", "unread": {"type": 1}},
        "notifications": {"uid": "notifications", "name": "Notifications"},
    },
    "Feeds": {
        "home": [{"type": "feed", "url": A}, {"type": "feed", "url": B, "name": "Bee"}],
        "0003": [{"type": "feed", "url": A}, {"type": "feed", "url": "https://A.example:443/feed"}],
    },
    "Settings": {"home": {"ExcludeRegex": "spam", "IncludeRegex": "", "ExcludeType": ["like", ""], "ChannelType": "x"}},
    "NextUID": 4,
    "Me": "https://www.alice.example/me",
    "TokenEndpoint": "https://tokens.example/",
    "AuthEnabled": True,
}


def look(document: Any, **environ: str) -> BackendReport:
    return examine(json.dumps(document, indent=1).encode(), "old.json", environ)


def upgrade(document: Any, **environ: str) -> Any:
    found = look(document, **environ).document
    assert found is not None
    return found.raw


def test_all_settings_are_upgraded() -> None:
    """Channels with their uids in order, feeds and their names, filters, site and token endpoint."""
    report = look(OLD)
    assert report.problems == ()
    assert [warning.partition(": ")[2] for warning in report.warnings] == [
        "AuthEnabled (line 57): is dropped: here, requests always need a token",
        "NextUID (line 54): is dropped: here, new channels get their uids in another way",
        "Channels.0001.unread (line 6): is dropped, here and in 1 other place",
        "Settings.home.ChannelType (line 51): is dropped",
    ]
    assert report.document
    assert report.document.legacy
    [(name, user)] = report.document.backend.users.items()
    assert (name, user.me, user.token_endpoint) == (
        "www-alice-example", "https://www.alice.example/me", "https://tokens.example/",
    )  # fmt: skip
    assert user.channels == (
        ChannelConfig("0001", "Tech"),
        ChannelConfig(
            "home",
            "Home",
            (FeedConfig(A), FeedConfig(B, "Bee")),
            OwnChannelSettings(filters=Filters(exclude_regex="spam", exclude_types=("like",))),
        ),
        ChannelConfig("0003", "0003", (FeedConfig(A),)),
    )


def test_keys_are_found_in_any_case() -> None:
    """Go ignores case in keys, in nested objects too."""

    def shout(value: Any) -> Any:
        if isinstance(value, dict):
            return {
                key if key in {"0001", "home", "0003", "notifications"} else key.upper(): shout(part)
                for key, part in value.items()
            }
        return [shout(part) for part in value] if isinstance(value, list) else value

    assert upgrade(shout(OLD)) == upgrade(OLD)


def test_an_upgraded_file_is_todays_and_means_the_same() -> None:
    """The upgrade writes down how the old file is read anyway; repeating it changes nothing."""
    new = upgrade(OLD)
    assert not is_legacy(new)
    assert upgrade(new) == new
    before, after = look(OLD).document, look(new).document
    assert before
    assert after
    assert before.backend == after.backend


@pytest.mark.parametrize(
    ("me", "name"),
    [
        ("https://alice.example/", "alice-example"),
        ("http://alice.example:8080/x", "alice-example"),
        ("", "default"),
        ("no url", "default"),
        ("https://[::1]/", "1"),
        ("https://[", "default"),
    ],
)
def test_the_user_is_named_after_the_site(me: str, name: str) -> None:
    """By its host, with the characters that a user name may have."""
    assert user_name(me) == name


@pytest.mark.parametrize(
    ("document", "old"),
    [
        ({"Channels": {}}, True),
        ({"feeds": {}}, True),
        ({"me": "https://a.example/"}, True),
        ({"users": {}, "me": "x"}, False),
        ({"Settings": {}}, False),
        ({}, False),
        ([], False),
    ],
)
def test_which_form_a_file_has(document: Any, old: bool) -> None:
    """The current form has users or nothing; `settings` alone is the current form too."""
    assert is_legacy(document) is old


def test_strange_uids_become_usable_ones() -> None:
    """Characters that the protocol can't carry are replaced, and no channel is lost."""
    channels = {uid: {"name": uid} for uid in ("a b", "a-b", "global", "ü", "Home")}
    new = upgrade({"Channels": channels})
    assert [channel["uid"] for channel in new["users"]["default"]["channels"]] == [
        "a-b", "a-b-2", "global-2", "channel", "Home",
    ]  # fmt: skip
    assert look({"Channels": channels}).ok


def test_variables_stay_variables() -> None:
    """They are expanded when the file is read, and not by the upgrade."""
    document = {"Feeds": {"home": [{"url": "${FEED}"}, {"url": "https://${HOST}/"}]}}
    assert upgrade(document, FEED=A, HOST="h.example")["users"]["default"]["channels"][0]["feeds"] == [
        "${FEED}",
        "https://${HOST}/",
    ]
    report = look(document, FEED=A, HOST="h.example")
    assert report.document
    feeds = report.document.backend.users["default"].channels[0].feeds
    assert feeds == (FeedConfig(A), FeedConfig("https://h.example/"))


@pytest.mark.parametrize(
    ("document", "error"),
    [
        ({"Channels": []}, "old.json: Channels (line 2): found a list, expected an object"),
        ({"Feeds": {"home": {}}}, "old.json: Feeds.home (line 3): found an object, expected a list"),
        (
            {"Feeds": {"home": [{"url": "nope"}]}},
            "old.json: Feeds.home[0] (line 4): found 'nope', expected a feed with an http or https URL",
        ),
        ({"Me": 7}, "old.json: Me (line 2): found the number 7, expected text"),
        ({"Me": "a.example"}, "old.json: Me (line 2): found 'a.example', expected an http or https URL"),
        (
            {"Channels": {"x": {}}, "Settings": {"x": {"IncludeRegex": "("}}},
            "old.json: Settings.x.IncludeRegex (line 7): found '(', expected a regular expression in "
            "RE2 syntax; there is a '(' that isn't closed at position 0",
        ),
    ],
)
def test_a_mistake_has_its_place_in_the_old_file(document: Any, error: str) -> None:
    """The place isn't that in the upgraded file."""
    assert [str(problem) for problem in look(document).problems] == [error]


def test_each_dropped_key_is_named_once() -> None:
    """In channels, feeds and settings, with its first place and the number of the others; notes don't count as keys."""
    document = {
        "Channels": {"a": {"uid": "a", "Colour": "red", "x-note": 1}, "b": {"name": "B", "colour": "blue"}},
        "Feeds": {"a": [{"url": A, "photo": "p"}, B, {"url": "https://c.example/", "photo": "q"}], "b": [{"url": B}]},
        "Settings": {"b": {"IncludeRegex": "x", "Language": "en"}, "zz": {"Language": "de"}},
        "Token": "t",
    }
    warnings = [warning.partition(": ")[2] for warning in look(document).warnings]
    assert [warning for warning in warnings if "dropped" in warning] == [
        "Token (line 40): is unknown and dropped",
        "Settings.zz (line 36): belongs to no channel and is dropped",
        "Channels.a.Colour (line 5): is dropped, here and in 1 other place",
        "Feeds.a[0].photo (line 17): is dropped, here and in 1 other place",
        "Settings.b.Language (line 34): is dropped",
    ]
