"""Three-way merge as tables: what an edit does, and what it leaves alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from microsub.configuration.changes import (
    Change,
    ChannelAdded,
    ChannelRemoved,
    ChannelRenamed,
    ChannelSettingsChanged,
    ChannelsReordered,
    Current,
    FeedAdded,
    FeedRemoved,
    FeedRenamed,
    InstanceSettingsChanged,
    RuleAdded,
    RuleRemoved,
    TokenEndpointChanged,
    UserAdded,
    UserChanged,
    UserQuotasChanged,
    UserRemoved,
    UserReturned,
    UserSettingsChanged,
)
from microsub.configuration.document import parse
from microsub.configuration.joining import Quotas
from microsub.configuration.merge import Merge, merge
from microsub.configuration.model import (
    Backend,
    ChannelConfig,
    FeedConfig,
    InstanceSettings,
    Limits,
    UserConfig,
    from_document,
)
from microsub.configuration.rewrite import edited

A, B, C = "https://a.example/", "https://b.example/", "https://c.example/"
EDITED = 1000.0

Doc = Mapping[str, Any]


def ch(uid: str, *feeds: Any, **more: Any) -> dict[str, Any]:
    return {"uid": uid, "feeds": list(feeds), **more}


def al(*channels: Any, **more: Any) -> Backend:
    return from_document({"users": {"al": {"channels": list(channels), **more}}})


def now(backend: Backend, **more: Any) -> Current:
    return Current(users=backend.users, settings=backend.settings, **more)


def run(base: Backend, file: Backend, current: Backend, **more: Any) -> Merge:
    return merge(base, file, now(current, **more), edited_at=EDITED)


NOTHING = Backend()
HOME = al(ch("home", A))


@pytest.mark.parametrize(
    ("base", "file", "current", "changes"),
    [
        pytest.param(
            NOTHING, al(ch("home", A, {"url": B, "name": "Bee"}), me="https://al.example/"), NOTHING,
            [UserAdded("al", "https://al.example/"), ChannelAdded("al", "home", "home"), FeedAdded("al", "home", A),
             FeedAdded("al", "home", B, "Bee")],
            id="everything is new",
        ),
        pytest.param(HOME, HOME, NOTHING, [], id="a user disabled by command stays so"),
        pytest.param(HOME, HOME, al(ch("x", C)), [], id="a file that says nothing new does nothing"),
        pytest.param(HOME, NOTHING, al(ch("home", A, B)), [UserRemoved("al")], id="a user removed"),
        pytest.param(HOME, NOTHING, NOTHING, [], id="a user removed who is gone already"),
        pytest.param(NOTHING, HOME, al(), [ChannelAdded("al", "home", "home"), FeedAdded("al", "home", A)],
                     id="a user that a command made is taken over"),
        pytest.param(HOME, al(ch("home", A), me="https://al.example/"), HOME,
                     [UserChanged("al", "https://al.example/")], id="the user's site"),
        pytest.param(HOME, al(ch("home", A), token_endpoint=B), HOME,
                     [TokenEndpointChanged("al", B)], id="where the user's tokens are checked"),
        pytest.param(al(ch("home", A), token_endpoint=B), HOME, al(ch("home", A), token_endpoint=B),
                     [TokenEndpointChanged("al", None)], id="where the user's tokens were checked"),
        pytest.param(HOME, al(ch("home", A), settings={"max_items": 1}), HOME,
                     [UserSettingsChanged("al", Limits(max_items=1))], id="the user's settings"),
        pytest.param(HOME, al(ch("home", A), settings={"quotas": {"feeds": 2}}), HOME,
                     [UserQuotasChanged("al", Quotas(feeds=2))], id="the user's quotas"),
        pytest.param(HOME, al(ch("home", A, B)), HOME, [FeedAdded("al", "home", B)], id="a feed added"),
        pytest.param(HOME, al(ch("home", A, B)), al(ch("home", A, B)), [], id="a feed added that is there"),
        pytest.param(HOME, al(ch("home")), HOME, [FeedRemoved("al", "home", A)], id="a feed removed"),
        pytest.param(HOME, al(ch("home")), al(ch("home")), [], id="a feed removed that is gone"),
        pytest.param(HOME, al(ch("home", A, B)), al(ch("home", C)), [FeedAdded("al", "home", B)],
                     id="what the API unfollowed and followed stays"),
        pytest.param(HOME, al(ch("home", "HTTPS://A.example:443/#x")), HOME, [], id="another spelling is no change"),
        pytest.param(HOME, al(ch("home", {"url": A, "name": "Ah"})), HOME, [FeedRenamed("al", "home", A, "Ah")],
                     id="a feed named"),
        pytest.param(al(ch("home", {"url": A, "name": "Ah"})), HOME, al(ch("home", {"url": A, "name": "Ah"})),
                     [FeedRenamed("al", "home", A, None)], id="a feed's name removed"),
        pytest.param(HOME, al(ch("home"), ch("new", A)), HOME,
                     [ChannelAdded("al", "new", "new"), FeedAdded("al", "new", A), FeedRemoved("al", "home", A)],
                     id="a feed moved is followed there before it is left here"),
        pytest.param(HOME, al(ch("home", A, name="Haus")), al(ch("home", A, B)),
                     [ChannelRenamed("al", "home", "Haus")], id="a channel renamed"),
        pytest.param(HOME, al(), HOME, [ChannelRemoved("al", "home")], id="a channel removed"),
        pytest.param(HOME, al(ch("home", A), ch("new")), al(ch("mine"), ch("home", A)),
                     [ChannelAdded("al", "new", "new")], id="a channel made by API stays"),
        pytest.param(HOME, al(ch("home", A), me="https://x.example/"), al(),
                     [UserChanged("al", "https://x.example/")], id="a channel deleted by API stays deleted"),
        pytest.param(HOME, al(ch("home", A, settings={"max_items": 5, "unread": "none"})), HOME,
                     [ChannelSettingsChanged("al", "home", Limits(max_items=5, unread="none"))], id="channel settings"),
        pytest.param(
            al(ch("home", settings={"max_items": 5, "filters": {"exclude_regex": "x"}})),
            al(ch("home", settings={"unread": "none"})),
            al(ch("home", settings={"max_items": 5, "keep_read_days": 1, "filters": {"exclude_regex": "x"}})),
            [ChannelSettingsChanged("al", "home", Limits(keep_read_days=1, unread="none"))],
            id="channel settings merge one by one",
        ),
        pytest.param(al(ch("h", mute=[A, B])), al(ch("h", mute=[B, C], block=[A]), mute=[A]),
                     al(ch("h", mute=[A.rstrip("/"), B])),
                     [RuleAdded("al", "global", "mute", A), RuleAdded("al", "h", "mute", C),
                      RuleAdded("al", "h", "block", A), RuleRemoved("al", "h", "mute", A)],
                     id="rules come and go"),
        pytest.param(al(ch("h", mute=[A])), al(ch("h", mute=["http://A.example"])), al(ch("h", mute=[A])), [],
                     id="another spelling of a rule is no change"),
        pytest.param(HOME, al(ch("home", A), ch("notifications", B)), al(ch("notifications"), ch("home", A)),
                     [FeedAdded("al", "notifications", B)], id="notifications may have feeds"),
        pytest.param(al(ch("notifications", B)), al(), al(ch("notifications", B, C)),
                     [FeedRemoved("al", "notifications", B)], id="notifications can't be removed, its feeds can"),
    ],
)  # fmt: skip
def test_an_edit_becomes_changes(base: Backend, file: Backend, current: Backend, changes: list[Change]) -> None:
    """Only what the edit says, against what is there."""
    merged = run(base, file, current)
    assert list(merged.changes) == changes
    assert merged.conflicts == ()


def test_settings_of_the_instance_are_one_change() -> None:
    """They are put in force as a whole."""
    file = from_document({"settings": {"max_items": 3, "polling": {"min_interval": 600}}})
    assert run(NOTHING, file, NOTHING).changes == (InstanceSettingsChanged(file.settings),)
    assert run(file, NOTHING, file).changes == (InstanceSettingsChanged(InstanceSettings()),)


def test_a_user_who_is_written_again_has_what_the_file_says() -> None:
    """What a disabled user of that name had is made that first, and then the user is enabled."""
    [former] = al(ch("home", A), ch("old", B)).users.values()
    changes = run(NOTHING, al(ch("home", B)), NOTHING, disabled={"al": former}).changes
    assert changes == (
        ChannelRemoved("al", "old"),
        FeedAdded("al", "home", B),
        FeedRemoved("al", "home", A),
        UserReturned("al"),
    )


def test_a_removed_channel_comes_back() -> None:
    """It isn't made again: it has its timeline."""
    [added, _] = run(al(), HOME, al(), removed=frozenset({("al", "home")})).changes
    assert added == ChannelAdded("al", "home", "home", restored=True)


def order(*uids: str) -> Backend:
    return al(*(ch(uid) for uid in uids))


@pytest.mark.parametrize(
    ("base", "file", "current", "expected"),
    [
        pytest.param("a b c", "c b a", "a b c", "c b a", id="reordered"),
        pytest.param("a b c", "c b a", "a m b c n", "c m b a n", id="those of the API keep their places"),
        pytest.param("a b c", "a b c d", "c b a", "c d b a", id="an order of the API stays"),
        pytest.param("a b c", "a b", "c b a", None, id="an order of the API stays after a removal"),
        pytest.param("a b", "a new b", "a b", "a new b", id="a new one stands behind its neighbour"),
        pytest.param("a b", "new a b", "a b", "new a b", id="a new one stands before its neighbour"),
        pytest.param("a b", "a b new", "a b m", "a b new m", id="behind its neighbour, not at the end"),
        pytest.param("a b", "a b new", "b a", "b new a", id="behind its neighbour, wherever that is"),
        pytest.param("a b", "x b y", "a b m", "x b y m", id="several new ones, one removed"),
        pytest.param("a b c", "b a", "a b c", "b a", id="reordered and removed"),
        pytest.param("a b", "b a", "notifications a b", "b a", id="notifications is left out"),
        pytest.param("a b", "notifications b a", "notifications a b", "b a", id="notifications in the file too"),
    ],
)
def test_the_order_of_channels(base: str, file: str, current: str, expected: str | None) -> None:
    """Moved by the file among the places that they hold."""
    merged = run(*(order(*text.split()) for text in (base, file, current)))
    found = [change for change in merged.changes if isinstance(change, ChannelsReordered)]
    if expected is None:
        assert found == []
    else:
        assert found == [ChannelsReordered("al", tuple(expected.split()))]


@pytest.mark.parametrize(("api_at", "winner"), [(EDITED - 1, "file"), (EDITED + 1, "api")])
@pytest.mark.parametrize(
    ("file", "current", "what", "change"),
    [
        (al(ch("h", A, name="File")), al(ch("h", A, name="Api")), "name of channel al/h",
         ChannelRenamed("al", "h", "File")),
        (al(ch("h", {"url": A, "name": "File"})), al(ch("h", {"url": A, "name": "Api"})), f"name of {A} in al/h",
         FeedRenamed("al", "h", A, "File")),
        (al(ch("h", A, settings={"max_items": 1})), al(ch("h", A, settings={"max_items": 2})),
         "setting max_items of channel al/h", ChannelSettingsChanged("al", "h", Limits(max_items=1))),
        (al(), al(ch("h", A, B)), "channel al/h", ChannelRemoved("al", "h")),
    ],
)  # fmt: skip
def test_the_later_change_wins(
    file: Backend, current: Backend, what: str, change: Change, api_at: float, winner: str
) -> None:
    """Where both changed the same thing, the conflict is reported and the later one holds."""
    merged = run(al(ch("h", A)), file, current, changed={("al", "h"): api_at})
    [conflict] = merged.conflicts
    assert (conflict.what, conflict.winner) == (what, winner)
    assert merged.changes == ((change,) if winner == "file" else ())


@pytest.mark.parametrize(("api_at", "changes"), [(EDITED - 1, 1), (EDITED + 1, 0)])
def test_a_conflict_about_the_order(api_at: float, changes: int) -> None:
    """Both put the channels into another order."""
    merged = run(order("a", "b", "c"), order("c", "b", "a"), order("b", "a", "c"), changed={("al", ""): api_at})
    assert len(merged.conflicts) == 1
    assert len(merged.changes) == changes


def test_both_made_the_same_change() -> None:
    """That is no conflict."""
    changed = al(ch("h", A, B, name="New"))
    assert run(al(ch("h", A)), changed, changed) == Merge()


def test_an_edit_of_what_the_api_removed_brings_it_back() -> None:
    """The admin means that channel or feed; it is reported."""
    merged = run(HOME, al(ch("home", A, B)), al())
    assert merged.changes == (
        ChannelAdded("al", "home", "home"),
        FeedAdded("al", "home", A),
        FeedAdded("al", "home", B),
    )
    assert [conflict.what for conflict in merged.conflicts] == ["channel al/home"]
    merged = run(HOME, al(ch("home", {"url": A, "name": "Ah"})), al(ch("home")))
    assert merged.changes == (FeedAdded("al", "home", A, "Ah"),)
    assert [conflict.what for conflict in merged.conflicts] == [f"feed {A} in al/home"]


def test_passwords_are_in_no_line_of_the_log() -> None:
    """Changes and conflicts are logged as text."""
    secret = "https://user:secret@a.example/"
    merged = run(
        al(ch("h", {"url": secret, "name": "1"})),
        al(ch("h", {"url": secret, "name": "2"}), mute=[secret]),
        al(ch("h", {"url": secret, "name": "3"})),
    )
    lines = [str(line) for line in (*merged.changes, *merged.conflicts)]
    assert len(lines) == 3
    assert not any("secret" in line for line in lines)


def test_users_are_merged_apart() -> None:
    """An edit of one user touches nobody else."""
    base = Backend({name: UserConfig(name, channels=(ChannelConfig("h", "h"),)) for name in ("al", "bo")})
    file = Backend({**base.users, "bo": UserConfig("bo", channels=(ChannelConfig("h", "h", (FeedConfig(A),)),))})
    current = Backend({"al": UserConfig("al"), "bo": base.users["bo"]})
    assert run(base, file, current).changes == (FeedAdded("bo", "h", A),)


SPECIAL = al(ch("home", A), settings={"max_items": 1, "quotas": {"feeds": 2}}, token_endpoint=B)


def test_who_registered_stays_when_the_file_says_no_more_of_them() -> None:
    """An entry for them, taken out again, takes with it what it said and nothing else."""
    merged = merge(SPECIAL, NOTHING, now(SPECIAL, registered=frozenset({"al"})), edited_at=EDITED)
    assert merged.changes == (
        TokenEndpointChanged("al", None),
        UserSettingsChanged("al", Limits()),
        UserQuotasChanged("al", Quotas()),
    )


def test_who_registered_comes_into_the_file_by_its_owner_alone() -> None:
    """Nothing is written back of them before; afterwards as of everybody."""
    text = b'{"users": {"bo": {}}}'
    everybody = Backend({"bo": UserConfig("bo"), **HOME.users})
    current = now(everybody, registered=frozenset({"al"}))
    assert edited(parse(text, "b.json", {}), current) is None
    written = edited(parse(b'{"users": {"bo": {}, "al": {}}}', "b.json", {}), current)
    assert written is not None
    assert written["users"]["al"]["channels"][0]["feeds"] == [A]
    assert edited(parse(text, "b.json", {}), now(everybody)) is not None
