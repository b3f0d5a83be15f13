# ruff: noqa: E501 - messages are compared as people see them
"""The allowed content of backend.json, and the messages for other content."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from microsub.configuration.document import UNUSABLE_UIDS, BackendReport, check, examine
from microsub.configuration.model import (
    OF_REGISTERED,
    Backend,
    ChannelConfig,
    DeliverySettings,
    FeedConfig,
    FeedPolicy,
    HostPolicy,
    IdentitySettings,
    InstanceSettings,
    Polling,
    PublicFeedConfig,
    Quotas,
    Registration,
    UserConfig,
    UserSettings,
    decode,
    encode,
)
from microsub.model.reader import NOTIFICATIONS, RESERVED
from microsub.model.settings import USUAL, Filters, OwnChannelSettings
from microsub_demo.publisher import backend_document
from scripts.reference import schema

OF_A_FEED = "url, name, view, full_text, article, article_without, hide_in_all, notify, keep_unread_days, paused, filter, sign_in"

EXAMPLE = Path(__file__).parents[2] / "backend.json.example"


def look(document: Any, **environ: str) -> BackendReport:
    text = document if isinstance(document, str) else json.dumps(document, indent=1)
    return examine(text.encode(), "b.json", environ)


def channels(*entries: Any) -> dict[str, Any]:
    return {"users": {"alice": {"channels": list(entries)}}}


def test_the_whole_shape_is_read() -> None:
    """Every key of the reference gets into its value."""
    report = look(
        {
            "$schema": "backend.schema.json",
            "x-note": {"any": "thing"},
            "users": {
                "alice": {
                    "me": "https://alice.example/",
                    "token_endpoint": "https://tokens.example/",
                    "settings": {"keep_unread_days": 0},
                    "mute": ["https://m.example/"],
                    "block": ["https://x.example/"],
                    "filters": {"exclude_words": ["advert"]},
                    "channels": [
                        {
                            "uid": "home",
                            "name": " Home  sweet ",
                            "feeds": ["https://a.example/", {"url": "http://b.example/f", "name": "B"}],
                            "settings": {
                                "keep_read_days": 0.5,
                                "max_items": 2.0,
                                "unread": "none",
                                "first_fetch_unread": 0,
                                "filters": {"include_regex": "a|b", "exclude_types": ["like"], "x-why": "noise"},
                            },
                            "mute": ["https://m2.example/"],
                        },
                        {"uid": "notifications", "feeds": ["https://a.example/"]},
                    ],
                },
                "bob": {},
            },
            "settings": {
                "max_items": 9,
                "keep_per_feed": 50,
                "identity": {"token_cache": 60},
                "polling": {"min_interval": 60, "host_concurrency": 2.0},
                "delivery": {"fan_out_limit": 1000.0, "away_days": 60},
                "hosts": {"Own.Example": {"interval": 0, "concurrency": 9}},
                "feeds": {"https://a.example/": {"interval": 5, "ttl": 0}},
                "public_feeds": ["https://p.example/"],
            },
        }
    )
    assert report.problems == ()
    assert report.warnings == ()
    assert report.document
    assert report.document.backend == Backend(
        users={
            "alice": UserConfig(
                "https://alice.example/",
                "https://tokens.example/",
                False,
                (
                    ChannelConfig(
                        "home",
                        "Home sweet",
                        (FeedConfig("https://a.example/"), FeedConfig("http://b.example/f", "B")),
                        OwnChannelSettings(
                            0.5, None, 2, "none", 0, filters=Filters(include_regex="a|b", exclude_types=("like",))
                        ),
                        ("https://m2.example/",),
                    ),
                    ChannelConfig("notifications", "notifications", (FeedConfig("https://a.example/"),)),
                ),
                UserSettings(keep_unread_days=0),
                ("https://m.example/",),
                ("https://x.example/",),
                Filters(exclude_words=("advert",)),
            ),
            "bob": UserConfig(),
        },
        settings=InstanceSettings(
            max_items=9,
            keep_per_feed=50,
            polling=Polling(min_interval=60, host_concurrency=2),
            delivery=DeliverySettings(1000, 60),
            hosts={"own.example": HostPolicy(0, 9)},
            feeds={"https://a.example/": FeedPolicy(5, 0)},
            public_feeds=(PublicFeedConfig("https://p.example/"),),
            identity=IdentitySettings(60),
        ),
    )
    assert decode(Backend, encode(report.document.backend)) == report.document.backend


@pytest.mark.parametrize("document", [{}, {"users": {}}, {"users": {"a": {"channels": []}}, "settings": {}}])
def test_a_minimal_file_is_valid(document: dict[str, Any]) -> None:
    """An empty object is a backend without users."""
    assert look(document).ok


@pytest.mark.parametrize(
    ("document", "error"),
    [
        ([], "line 1: found a list, expected an object"),
        ({"users": []}, "users (line 2): found a list, expected an object"),
        ({"users": {"a b": {}}}, "users[\"a b\"] (line 3): found the key 'a b', expected 1 to 64 letters, digits, '_' or '-'"),
        ({"user": {}}, "user (line 2): found the unknown key 'user', expected one of users, settings; did you mean 'users'?"),
        (
            {"users": {"alice": {"chanels": []}}},
            "users.alice.chanels (line 4): found the unknown key 'chanels', expected one of me, token_endpoint, admin, channels, "
            "settings, mute, block, filters, outputs, sources; did you mean 'channels'?",
        ),
        (
            channels({"name": "x"}),
            "users.alice.channels[0].uid (line 5): found nothing, expected a uid, the channel's permanent name: 1 to 64 "
            "letters, digits, '_' or '-'",
        ),
        (
            channels({"uid": "a.b"}),
            "users.alice.channels[0].uid (line 6): found 'a.b', expected 1 to 64 letters, digits, '_' or '-'",
        ),
        (
            channels({"uid": "a\n"}),
            "users.alice.channels[0].uid (line 6): found 'a\n', expected 1 to 64 letters, digits, '_' or '-'",
        ),
        (
            channels({"uid": "global"}),
            "users.alice.channels[0].uid (line 6): found the reserved uid 'global', expected another uid: the protocol "
            "reserves this one",
        ),
        (
            channels({"uid": "a"}, {"uid": "b"}, {"uid": "a"}),
            "users.alice.channels[2].uid (line 12): found the uid 'a' again, expected a unique uid: "
            "users.alice.channels[0].uid already has this one",
        ),
        (
            channels({"uid": "a", "name": " "}),
            "users.alice.channels[0].name (line 7): found ' ', expected text that isn't blank",
        ),
        (
            {"users": {"alice": {"sources": {"s": {"channel": "a", "name": "\x1b"}}}}},
            "users.alice.sources.s.name (line 7): found '\x1b', expected printable text that isn't blank",
        ),
        (
            channels({"uid": "a", "feeds": ["https://F.example", {"url": "https://f.example:443/#x"}]}),
            "users.alice.channels[0].feeds[1].url (line 10): found 'https://f.example:443/#x' again, expected each feed only "
            "once per channel: users.alice.channels[0].feeds[0] is the same",
        ),
        (
            channels({"uid": "a", "feeds": ["blog.example"]}),
            "users.alice.channels[0].feeds[0] (line 8): found 'blog.example', expected an http or https URL, such as "
            "https://blog.example/feed.xml",
        ),
        (
            channels({"uid": "a", "feeds": [{"name": "x"}]}),
            "users.alice.channels[0].feeds[0].url (line 8): found nothing, expected an http or https URL, such as "
            "https://blog.example/feed.xml",
        ),
        (
            {"users": {"a": {"mute": ["https://m.example/" + "x" * 2048]}}},
            "users.a.mute[0] (line 5): found 'https://m.example/xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…', of 2066 characters, expected at most 2048",
        ),
        (
            channels({"uid": "a", "feeds": [7]}),
            "users.alice.channels[0].feeds[0] (line 8): found the number 7, expected text or an object",
        ),
        (
            {"users": {"a": {"me": "https://u:secret@[x/"}}},
            "users.a.me (line 4): found 'https://***@[x/', with a user name or password, expected an http or https URL of "
            "somebody's site, such as https://alice.example/, without user, password, fragment or dot segments",
        ),
        (
            {"settings": {"unread": "yes"}},
            "settings.unread (line 3): found 'yes', expected one of 'count', 'boolean', 'none'",
        ),
        ({"settings": {"max_items": True}}, "settings.max_items (line 3): found true, expected a whole number"),
        ({"settings": {"feed_trouble": 3}}, "settings.feed_trouble (line 3): found the number 3, expected true or false"),
        *(
            (channels({"uid": "a", "feeds": [{"url": "https://blog.example/", name: "no"}]}), f"users.alice.channels[0].feeds[0].{name} (line 10): found 'no', expected true or false")
            for name in ("hide_in_all", "notify", "paused")
        ),
        ({"users": {"alice": {"admin": "false"}}}, "users.alice.admin (line 4): found 'false', expected true or false"),
        ({"settings": {"feed_trouble": 0}}, "settings.feed_trouble (line 3): found the number 0, expected true or false"),
        ({"settings": {"max_items": -1}}, "settings.max_items (line 3): found the number -1, expected a number of at least 0"),
        (
            {"settings": {"polling": {"max_interval": 60, "min_interval": 120}}},
            "settings.polling.min_interval (line 5): found the number 120, expected min_interval (120) to be "
            "at most max_interval (60)",
        ),
        (
            {"settings": {"feeds": {"a.example": {}}}},
            "settings.feeds[\"a.example\"] (line 4): found the key 'a.example', expected an http or https URL, such as "
            "https://blog.example/feed.xml",
        ),
        (
            channels({"uid": "a", "settings": {"filters": {"include_regex": "("}}}),
            "users.alice.channels[0].settings.filters.include_regex (line 9): found '(', with a '(' that isn't closed at "
            "position 0, expected a regular expression in RE2 syntax",
        ),
        (
            channels({"uid": "a", "settings": {"filters": {"exclude_regex": "spam (?!no)"}}}),
            "users.alice.channels[0].settings.filters.exclude_regex (line 9): found 'spam (?!no)', with an unsupported "
            "kind of group (there is no look-ahead or look-behind) at position 5, expected a regular expression in RE2 syntax",
        ),
        (
            {"users": {"a": {"filters": {"exclude_regex": "("}}}},
            "users.a.filters.exclude_regex (line 5): found '(', with a '(' that isn't closed at position 0, expected a "
            "regular expression in RE2 syntax",
        ),
        (
            {"users": {"a": {"outputs": {"picks": {"search": "tide is:wet"}}}}},
            "users.a.outputs.picks.search (line 6): found 'tide is:wet', with 'is:wet' at character 6 "
            "instead of is:unread, is:read or is:saved, expected a search in the syntax of `action=search`",
        ),
        (
            {"users": {"a": {"outputs": {"picks": {"search": "tide " * 201}}}}},
            "users.a.outputs.picks.search (line 6): found 'tide tide tide tide tide tide tide tide tide tide tide tide tide "
            "tide tide ti…', of 1005 characters, expected at most 1000",
        ),
        (
            channels({"uid": "a", "settings": {"filters": {"include_word": ["a"]}}}),
            "users.alice.channels[0].settings.filters.include_word (line 9): found the unknown key 'include_word', "
            "expected one of include_types, include_words, include_regex, exclude_types, exclude_words, exclude_regex; "
            "did you mean 'include_words'?",
        ),
        (
            channels({"uid": "${UID}"}),
            "users.alice.channels[0].uid (line 6): found '${UID}', which isn't set, expected an environment variable "
            "named UID",
        ),
    ],
)  # fmt: skip
def test_a_mistake_has_place_and_expectation(document: Any, error: str) -> None:
    """File, path inside it, line, the value found and the one expected."""
    assert [str(problem) for problem in look(document).problems] == [f"b.json: {error}"]


@pytest.mark.parametrize(
    ("channel", "place", "expected"),
    [
        (
            {"feeds": [{"url": "https://a.example/", "ulr": "x"}]},
            "feeds[0].ulr",
            f"one of {OF_A_FEED}; did you mean 'url'?",
        ),
        ({"feeds": [{"url": "https://a.example/", "colour": "x"}]}, "feeds[0].colour", f"one of {OF_A_FEED}"),
        ({"settings": {"filters": {"include_types": ["articles"]}}}, "settings.filters.include_types[0]", "'article'?"),
        ({"settings": {"filters": {"include_types": ["poem"]}}}, "settings.filters.include_types[0]", "event"),
    ],
)
def test_ineffective_keys_are_mistakes(channel: dict[str, Any], place: str, expected: str) -> None:
    """A misspelt word, a key of a feed that has no meaning, and a filter that excludes everything."""
    [problem] = look(channels({"uid": "a", **channel})).problems
    assert problem.path == f"users.alice.channels[0].{place}"
    assert problem.expected.endswith(expected)


def test_an_unknown_post_type_is_a_warning() -> None:
    """The filter accepts the other types, whatever it is of."""
    filters = {"include_types": ["note", "poem"]}
    for document in (
        channels({"uid": "a", "settings": {"filters": filters}}),
        channels({"uid": "a", "feeds": [{"url": "https://a.example/", "filter": filters}]}),
        {"users": {"a": {"filters": filters}}},
        {"users": {"a": {"outputs": {"picks": {"filters": filters}}}}},
    ):
        report = look(document)
        assert report.ok
        assert "unknown post type 'poem'" in report.warnings[0]


def test_all_mistakes_are_reported_in_file_order() -> None:
    """One run of `config check` reports them all."""
    report = look(channels({"uid": "a", "feeds": [1, 2]}, {"uid": "saved"}))
    assert [(problem.path, problem.line) for problem in report.problems] == [
        ("users.alice.channels[0].feeds[0]", 8),
        ("users.alice.channels[0].feeds[1]", 9),
        ("users.alice.channels[1].uid", 13),
    ]


def test_values_of_variables_are_never_shown() -> None:
    """The message shows the variable's name, not the secret in it."""
    report = look(channels({"uid": "a", "feeds": ["${SECRET}"]}), SECRET="hush hush")
    [problem] = report.problems
    assert "hush" not in str(problem)
    assert "'${SECRET}'" in str(problem)


def test_a_variable_that_is_no_text_is_refused() -> None:
    """It can't be stored; the message names the variable."""
    (problem,) = look(channels({"uid": "home", "name": "${NAME}"}), NAME="caf\udce9").problems
    assert "users.alice.channels[0].name" in str(problem)
    assert "'${NAME}', whose value isn't UTF-8" in str(problem)


def test_variables_are_expanded_only_in_values() -> None:
    """Also in the middle of a text; `$${` stands for itself."""
    report = look(channels({"uid": "a", "name": "$${X} ${X}", "feeds": ["https://${X}/f?k=${X}"]}), X="x.example")
    assert report.document
    [channel] = report.document.backend.users["alice"].channels
    assert channel == ChannelConfig("a", "${X} x.example", (FeedConfig("https://x.example/f?k=x.example"),))
    assert "${X}/f" in json.dumps(report.document.raw)


@pytest.mark.parametrize(
    ("document", "warning"),
    [
        (
            {"colour": 1},
            "b.json: colour (line 2): unknown key, which has no effect (for notes, use names that begin with 'x-')",
        ),
        (
            channels({"uid": "a", "name": "X"}, {"uid": "b", "name": "X"}),
            "b.json: users.alice.channels[1].name (line 11): a second channel with the name 'X'",
        ),
    ],
)
def test_probable_slips_are_warnings(document: Any, warning: str) -> None:
    """The file is applied, and the admin gets a warning."""
    report = look(document)
    assert report.ok
    assert report.warnings == (warning,)


@pytest.mark.parametrize(
    "other",
    [
        "https://a.example",
        "http://A.example:80/",
    ],
)
def test_one_site_for_two_users_is_an_error_that_names_both(other: str) -> None:
    """In any spelling: a sign-in with it would be ambiguous."""
    report = look({"users": {"ann": {"me": "https://a.example/"}, "bob": {"me": other}}})
    [problem] = report.problems
    assert "users.bob.me" in str(problem)
    assert "'ann'" in str(problem)


@pytest.mark.parametrize(
    ("registration", "place"),
    [
        ({"open": "some"}, "registration.open"),
        ({"open": "domains"}, "registration.domains"),
        ({"open": "domains", "domains": []}, "registration.domains"),
        ({"open": "domains", "domains": ["com"]}, "registration.domains[0]"),
        ({"refuse": ["com"]}, "registration.refuse[0]"),
        ({"most": -1}, "registration.most"),
        ({"quotas": {"channels": "many"}}, "registration.quotas.channels"),
    ],
)
def test_contradictory_registration_is_refused(registration: Any, place: str) -> None:
    """Above all, a domain that would mean everybody."""
    [problem] = look({"settings": {"registration": registration}}).problems
    assert f"settings.{place}" in str(problem)


def test_registration_and_quotas_are_read_and_written() -> None:
    """For the instance and for a user; an omitted key has its default."""
    registration = {
        "open": "domains",
        "domains": ["Example.org"],
        "refuse": ["https://x.example/"],
        "quotas": {"feeds": 9},
    }
    users = {"ann": {"settings": {"quotas": {"requests": 60}}}}
    report = look({"users": users, "settings": {"registration": registration, "quotas": {"channels": 3}}})
    assert report.document
    assert report.warnings == ()
    backend = report.document.backend
    assert backend.settings.registration == Registration(
        "domains", ("Example.org",), ("https://x.example/",), quotas=Quotas(feeds=9)
    )
    assert backend.settings.quotas == Quotas(channels=3)
    assert backend.users["ann"].settings.quotas == Quotas(requests=60)
    assert decode(Backend, encode(backend)) == backend


def test_the_schema_is_a_schema_and_knows_the_reserved_names() -> None:
    """Editors can use it; a uid can't be a word that the protocol uses."""
    Draft202012Validator.check_schema(schema())
    assert {*UNUSABLE_UIDS, NOTIFICATIONS} == RESERVED


def test_the_schema_declares_the_defaults() -> None:
    """Editors show the real default at every level, and a quota's default is in its description."""
    shipped = schema()["$defs"]
    for part in ("instanceSettings", "userSettings", "channelSettings"):
        for name, value in asdict(USUAL).items():
            assert shipped[part]["properties"][name]["default"] == value
    assert shipped["polling"]["properties"]["min_interval"]["default"] == Polling().min_interval
    for name, value in asdict(OF_REGISTERED).items():
        assert f"{value:,}" in shipped["registration"]["properties"]["quotas"]["description"], name


def test_the_example_and_the_demo_are_valid() -> None:
    """A newcomer's first file has neither errors nor warnings, in an editor too."""
    for document in (json.loads(EXAMPLE.read_text()), backend_document("http://127.0.0.1:9999")):
        report = look(document)
        assert (report.problems, report.warnings) == ((), ())
        assert not list(Draft202012Validator(schema()).iter_errors(document))


def test_a_file_that_cant_be_read_is_a_problem_like_others(tmp_path: Path) -> None:
    """The file is missing, or is a folder."""
    [missing] = check(tmp_path / "none.json", {}).problems
    assert str(missing) == f"{tmp_path}/none.json: found no file, expected a readable backend.json"
    [folder] = check(tmp_path, {}).problems
    assert "found a folder" in str(folder)


@pytest.mark.parametrize(
    ("me", "why"),
    [
        ("https://ann.example/#me", "with a fragment"),
        ("https://ann:secret@ann.example/", "with a user name or password"),
        ("ann.example", ""),
        ("", ""),
    ],
)
def test_an_unusable_profile_url_is_a_mistake(me: str, why: str) -> None:
    """It is refused by the rule of sign-in, with the field, the reason and the expected form, without the password."""
    (problem,) = look({"users": {"ann": {"me": me}}}).problems
    assert problem.path.startswith("users.ann.me")
    assert why in problem.found
    assert "such as https://alice.example/" in problem.expected
    assert "secret" not in str(problem)


def test_an_http_token_endpoint_is_warned_about() -> None:
    """It may be in a network that the admin allows; no token is ever sent to one in another network."""
    found = {
        url: look({"users": {"ann": {"me": "https://ann.example/", "token_endpoint": url}}})
        for url in ("http://tokens.example/token", "https://tokens.example/token")
    }
    assert [len(report.warnings) for report in found.values()] == [1, 0]
    assert "MICROSUB_ALLOW_PRIVATE_NETWORKS" in found["http://tokens.example/token"].warnings[0]
