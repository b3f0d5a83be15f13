"""Three-way merge as tables: the effect of an edit, and what it keeps."""

from __future__ import annotations

from typing import Any

import pytest

from microsub.configuration.document import parse
from microsub.configuration.facts import (
    Change,
    ChangeKind,
    Current,
    Merge,
    edited,
    merge,
)
from microsub.configuration.model import (
    Backend,
    FeedConfig,
    UserConfig,
    UserSettings,
    decode,
)
from microsub.model.settings import Filters, OwnChannelSettings
from tests.support.replay import replay

W = ChangeKind
A, B, C = "https://a.example/", "https://b.example/", "https://c.example/"
EDITED = 1000.0


def ch(uid: str, *feeds: Any, **more: Any) -> dict[str, Any]:
    return {"uid": uid, "feeds": list(feeds), **more}


def al(*channels: Any, **more: Any) -> Backend:
    return decode(Backend, {"users": {"al": {"channels": list(channels), **more}}})


def now(backend: Backend, **more: Any) -> Current:
    return Current(users=backend.users, settings=backend.settings, **more)


def run(base: Backend, file: Backend, current: Backend, **more: Any) -> Merge:
    return merge(base, file, now(current, **more), edited_at=EDITED)


def do(what: ChangeKind, uid: str = "", value: Any = None, **more: Any) -> Change:
    return Change(what, "al", uid, value, **more)


NOTHING = Backend()
HOME = al(ch("home", A))


@pytest.mark.parametrize(
    ("base", "file", "current", "changes"),
    [
        pytest.param(HOME, HOME, NOTHING, [], id="a user disabled by command stays so"),
        pytest.param(
            NOTHING,
            HOME,
            al(),
            [do(W.CHANNEL_ADDED, "home", "home"), do(W.FEED_ADDED, "home", FeedConfig(A))],
            id="a user that a command made is taken over",
        ),
        pytest.param(HOME, al(ch("home", "HTTPS://A.example:443/#x")), HOME, [], id="another spelling is no change"),
        pytest.param(
            al(ch("h", mute=[A])), al(ch("h", mute=["http://A.example"])), al(ch("h", mute=[A])), [], id="nor in a rule"
        ),
        pytest.param(
            al(ch("home", {"url": A, "name": "Ah"})),
            HOME,
            al(ch("home", {"url": A, "name": "Ah"})),
            [do(W.FEED_RENAMED, "home", FeedConfig(A, None))],
            id="a feed's name removed",
        ),
        pytest.param(
            al(ch("home", {"url": A, "view": "list", "keep_unread_days": 5})),
            al(ch("home", {"url": A, "name": "Ah", "keep_unread_days": 7, "hide_in_all": True})),
            al(ch("home", {"url": A, "view": "list", "keep_unread_days": 5, "notify": True})),
            [
                do(W.FEED_RENAMED, "home", FeedConfig(A, "Ah")),
                do(
                    W.FEED_CHANGED,
                    "home",
                    FeedConfig(A, notify=True, keep_unread_days=7, hide_in_all=True),
                    former=FeedConfig(A, view="list", keep_unread_days=5, notify=True),
                ),
            ],
            id="settings of a feed, beside one that an app changed",
        ),
        pytest.param(
            HOME,
            al(ch("home"), ch("new", A)),
            HOME,
            [
                do(W.CHANNEL_ADDED, "new", "new"),
                do(W.FEED_ADDED, "new", FeedConfig(A)),
                do(W.FEED_REMOVED, "home", FeedConfig(A)),
            ],
            id="a feed moved is followed there before it is left here",
        ),
        pytest.param(
            HOME,
            al(ch("home", A), me="https://x.example/"),
            al(),
            [do(W.SITE, value="https://x.example/")],
            id="a channel deleted by API stays deleted",
        ),
        pytest.param(
            al(ch("home", settings={"max_items": 5, "filters": {"exclude_regex": "x"}})),
            al(ch("home", settings={"unread": "none"})),
            al(ch("home", settings={"max_items": 5, "keep_read_days": 1, "filters": {"exclude_regex": "x"}})),
            [do(W.CHANNEL_SETTINGS, "home", OwnChannelSettings(keep_read_days=1, unread="none"))],
            id="channel settings merge one by one",
        ),
        pytest.param(
            al(ch("h", mute=[A, B])),
            al(ch("h", mute=[B, C], block=[A]), mute=[A]),
            al(ch("h", mute=[A.rstrip("/"), B])),
            [do(W.MUTED, "global", A), do(W.MUTED, "h", C), do(W.BLOCKED, "h", A), do(W.UNMUTED, "h", A)],
            id="rules come and go",
        ),
        pytest.param(
            al(ch("notifications", B)),
            al(),
            al(ch("notifications", B, C)),
            [do(W.FEED_REMOVED, "notifications", FeedConfig(B))],
            id="notifications can't be removed, its feeds can",
        ),
        pytest.param(HOME, al(ch("home", A), admin=True), HOME, [do(W.ADMIN, value=True)], id="an admin is named"),
        pytest.param(HOME, HOME, al(ch("home", A), admin=True), [], id="a command's admin stays"),
        pytest.param(
            al(ch("home", A), admin=True), HOME, al(ch("home", A), admin=True), [do(W.ADMIN, value=False)], id="no more"
        ),
    ],
)
def test_an_edit_becomes_changes(base: Backend, file: Backend, current: Backend, changes: list[Change]) -> None:
    """The changes are those of the edit, compared with the current state."""
    merged = run(base, file, current)
    assert list(merged.changes) == changes
    assert merged.conflicts == ()


def test_a_removed_channel_comes_back() -> None:
    """It is restored with its timeline, instead of created."""
    [added, _] = run(al(), HOME, al(), removed=frozenset({("al", "home")})).changes
    assert added == do(W.CHANNEL_ADDED, "home", "home", restored=True)


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
    """The file moves channels among the places that they have."""
    merged = run(*(order(*text.split()) for text in (base, file, current)))
    found = [change for change in merged.changes if change.what is W.REORDERED]
    if expected is None:
        assert found == []
    else:
        assert found == [do(W.REORDERED, value=tuple(expected.split()))]


def test_a_channel_that_comes_back_takes_its_place_at_once() -> None:
    """The first application sets the order of the file, so that a second one has nothing to do."""
    base, file, current = al(ch("w", A), ch("v")), al(ch("v"), ch("u"), ch("w")), now(al(ch("u"), ch("v")))
    once = replay(current, merge(base, file, current, edited_at=EDITED).changes)
    assert [channel.uid for channel in once.users["al"].channels] == ["v", "u", "w"]
    assert merge(base, file, once, edited_at=EDITED).changes == ()


@pytest.mark.parametrize(("api_at", "winner"), [(EDITED - 1, "file"), (EDITED + 1, "api")])
@pytest.mark.parametrize(
    ("file", "current", "what", "change"),
    [
        (
            al(ch("h", A, name="File")),
            al(ch("h", A, name="Api")),
            "name of channel al/h",
            do(W.CHANNEL_RENAMED, "h", "File"),
        ),
        (
            al(ch("h", {"url": A, "name": "File"})),
            al(ch("h", {"url": A, "name": "Api"})),
            f"name of {A} in al/h",
            do(W.FEED_RENAMED, "h", FeedConfig(A, "File")),
        ),
        (
            al(ch("h", A, settings={"max_items": 1})),
            al(ch("h", A, settings={"max_items": 2})),
            "setting max_items of channel al/h",
            do(W.CHANNEL_SETTINGS, "h", OwnChannelSettings(max_items=1)),
        ),
        (al(), al(ch("h", A, B)), "channel al/h", do(W.CHANNEL_REMOVED, "h")),
    ],
)
def test_the_later_change_wins(
    file: Backend, current: Backend, what: str, change: Change, api_at: float, winner: str
) -> None:
    """If both changed the same value, the conflict is reported and the later change is kept."""
    merged = run(al(ch("h", A)), file, current, changed={("al", "h"): api_at})
    [conflict] = merged.conflicts
    assert conflict.startswith(f"{what}: file: ")
    assert conflict.endswith(f"; {'the file' if winner == 'file' else 'the API'} changed it later and wins")
    assert merged.changes == ((change,) if winner == "file" else ())


@pytest.mark.parametrize(("api_at", "changes"), [(EDITED - 1, 1), (EDITED + 1, 0)])
def test_a_conflict_about_the_order(api_at: float, changes: int) -> None:
    """Both changed the order of channels."""
    merged = run(order("a", "b", "c"), order("c", "b", "a"), order("b", "a", "c"), changed={("al", ""): api_at})
    assert len(merged.conflicts) == 1
    assert len(merged.changes) == changes


def test_the_filter_for_all_channels() -> None:
    """An edit of the file counts as the later one; without one, a user's own filter stays."""
    was, file, own = (al(ch("h"), filters={"exclude_words": [word]}) for word in ("spam", "egg", "ham"))
    merged = run(was, file, own)
    assert merged.changes == (do(W.FILTERS, value=Filters(exclude_words=("egg",))),)
    (conflict,) = merged.conflicts
    assert conflict.startswith("filter for all channels of al: file: another content; API: another content; the file")
    assert "file: another content; API: removed it;" in run(was, file, al(ch("h"))).conflicts[0]
    assert run(was, was, own) == Merge()
    assert run(was, al(ch("h")), was).changes == (do(W.FILTERS, value=Filters()),)


def test_both_made_the_same_change() -> None:
    """This isn't a conflict."""
    changed = al(ch("h", A, B, name="New"))
    assert run(al(ch("h", A)), changed, changed) == Merge()


def test_an_edit_of_what_the_api_removed_brings_it_back() -> None:
    """The admin wants that channel or feed; it is reported."""
    merged = run(HOME, al(ch("home", A, B)), al())
    assert merged.changes == (
        do(W.CHANNEL_ADDED, "home", "home"),
        do(W.FEED_ADDED, "home", FeedConfig(A)),
        do(W.FEED_ADDED, "home", FeedConfig(B)),
    )
    assert [line.partition(": file:")[0] for line in merged.conflicts] == ["channel al/home"]
    merged = run(HOME, al(ch("home", {"url": A, "name": "Ah"})), al(ch("home")))
    assert merged.changes == (do(W.FEED_ADDED, "home", FeedConfig(A, "Ah")),)
    assert [line.partition(": file:")[0] for line in merged.conflicts] == [f"feed {A} in al/home"]


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


SPECIAL = al(ch("home", A), settings={"max_items": 1, "quotas": {"feeds": 2}}, token_endpoint=B, admin=True)


def test_registered_users_stay_when_their_entry_goes() -> None:
    """An entry for a registered user that is removed again takes only its own content with it."""
    merged = merge(SPECIAL, NOTHING, now(SPECIAL, registered=frozenset({"al"})), edited_at=EDITED)
    assert merged.changes == (
        do(W.TOKEN_ENDPOINT, value=None),
        do(W.ADMIN, value=False),
        do(W.USER_SETTINGS, value=UserSettings()),
    )


def test_registered_users_are_written_only_if_declared() -> None:
    """Before that, nothing of the user is written back; afterwards, the same as for other users."""
    text = b'{"users": {"bo": {}}}'
    everybody = Backend({"bo": UserConfig(), **HOME.users})
    current = now(everybody, registered=frozenset({"al"}))
    assert edited(parse(text, "b.json", {}), current) is None
    written = edited(parse(b'{"users": {"bo": {}, "al": {}}}', "b.json", {}), current)
    assert written is not None
    assert written["users"]["al"]["channels"][0]["feeds"] == [A]
    assert edited(parse(text, "b.json", {}), now(everybody)) is not None
