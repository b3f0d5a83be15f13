"""Properties of every merge and every write-back, for any three states."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from microsub.configuration.document import parse
from microsub.configuration.facts import ChangeKind, Current, edited, merge
from microsub.configuration.json_text import rewrite
from microsub.configuration.model import (
    Backend,
    ChannelConfig,
    FeedConfig,
    InstanceSettings,
    OutputConfig,
    UserConfig,
    UserSettings,
    decode,
    encode,
)
from microsub.model.reader import NOTIFICATIONS
from microsub.model.settings import Filters, OwnChannelSettings
from tests.support import examples
from tests.support.replay import replay

URLS = [f"https://{host}.example/" for host in "abc"]
UIDS = ["u", "v", "w", NOTIFICATIONS]

_urls = st.lists(st.sampled_from(URLS), unique=True, max_size=2).map(lambda urls: tuple(sorted(urls)))
_feeds = st.lists(
    st.builds(FeedConfig, st.sampled_from(URLS), st.sampled_from([None, "N", "M"])),
    unique_by=lambda feed: feed.url,
    max_size=3,
).map(tuple)
_limits = {"max_items": st.sampled_from([None, 1, 2]), "unread": st.sampled_from([None, "none"])}
_filters = st.sampled_from([Filters(), Filters(exclude_regex="x")])
_own = st.builds(OwnChannelSettings, **_limits, filters=_filters)


def _channel(uid: str) -> st.SearchStrategy[ChannelConfig]:
    names = st.sampled_from([uid] if uid == NOTIFICATIONS else [uid, "X", "Y"])
    return st.builds(ChannelConfig, st.just(uid), names, _feeds, _own, _urls, _urls)


_channels = st.lists(st.sampled_from(UIDS), unique=True).flatmap(lambda uids: st.tuples(*map(_channel, uids)))


_outputs = st.dictionaries(
    st.sampled_from(["p", "q"]),
    st.builds(OutputConfig, st.sampled_from([None, "P"]), max_impressions=st.sampled_from([0, 4])),
)


def _user(name: str) -> st.SearchStrategy[UserConfig]:
    me = st.sampled_from(["", f"https://{name}.one.example/", f"https://{name}.two.example/"])
    own = st.builds(UserSettings, **_limits)
    return st.builds(UserConfig, me, st.none(), st.booleans(), _channels, own, _urls, _urls, _filters, _outputs)


_instance = st.builds(InstanceSettings, **_limits)
_backends = st.builds(
    Backend,
    st.sets(st.sampled_from(["al", "bo"])).flatmap(lambda names: st.fixed_dictionaries({n: _user(n) for n in names})),
    _instance,
)


def _with_notifications_first(user: UserConfig) -> UserConfig:
    first = user.by_uid().get(NOTIFICATIONS) or ChannelConfig(NOTIFICATIONS, NOTIFICATIONS)
    rest = tuple(channel for channel in user.channels if channel.uid != NOTIFICATIONS)
    return replace(user, channels=(first, *rest))


@st.composite
def _currents(draw: st.DrawFn) -> Current:
    backend = draw(_backends)
    users = {name: _with_notifications_first(user) for name, user in backend.users.items()}
    missing = sorted({"al", "bo"} - set(users))
    disabled = {name: _with_notifications_first(draw(_user(name))) for name in missing if draw(st.booleans())}
    pairs = [(name, uid) for name, user in users.items() for uid in ("u", "v", "w") if user.by_uid().get(uid) is None]
    removed = draw(st.sets(st.sampled_from(pairs))) if pairs else set()
    times = draw(st.dictionaries(st.tuples(st.sampled_from(["al", "bo"]), st.sampled_from([*UIDS, ""])), st.just(9.0)))
    return Current(users, backend.settings, disabled, frozenset(removed), times)


_settings = settings(deadline=None, max_examples=examples(60), suppress_health_check=list(HealthCheck))
EARLY, LATE = 1.0, 10.0


def _applied(base: Backend, file: Backend, current: Current, at: float = LATE) -> Current:
    return replay(current, merge(base, file, current, edited_at=at).changes)


@_settings
@given(_backends, _currents())
def test_an_unchanged_file_changes_nothing(file: Backend, current: Current) -> None:
    """This holds whatever users have changed since."""
    merged = merge(file, file, current, edited_at=LATE)
    assert merged.changes == ()
    assert merged.conflicts == ()


@_settings
@given(_backends, _backends, _currents(), st.sampled_from([EARLY, LATE]))
def test_applying_twice_does_nothing_the_second_time(base: Backend, file: Backend, current: Current, at: float) -> None:
    """Also if the first application wasn't recorded, because the process was killed before."""
    once = _applied(base, file, current, at)
    assert merge(base, file, once, edited_at=at).changes == ()


@_settings
@given(_backends, _backends, _currents(), st.data())
def test_applying_can_break_off_anywhere(base: Backend, file: Backend, current: Current, data: st.DataObject) -> None:
    """The rest is applied the next time, and the result is the same.

    The exception is an edit that brings back something removed by the API: after a break between its two changes, it
    has only what the edit itself says.
    """
    merged = merge(base, file, current, edited_at=LATE)
    changes = merged.changes
    assume(not any("; API: removed it;" in line for line in merged.conflicts))
    assume(
        not any(
            change.what in (ChangeKind.USER_ADDED, ChangeKind.USER_RETURNED) and change.user in base.users
            for change in changes
        )
    )
    half = replay(current, changes[: data.draw(st.integers(0, len(changes)))])
    resumed = _applied(base, file, half)
    whole = replay(current, changes)
    assert _content(resumed) == _content(whole)


def _content(current: Current) -> Any:
    """A state without the order of channels, which depends on which of them existed first."""
    return {
        name: (
            user.me,
            user.settings,
            user.mute,
            user.block,
            user.filters,
            sorted(map(repr, map(_set_of_feeds, user.channels))),
        )
        for name, user in current.users.items()
    }


def _set_of_feeds(channel: ChannelConfig) -> Any:
    return channel.uid, channel.name, sorted(map(repr, channel.feeds)), channel.settings, channel.mute


@_settings
@given(_backends, _backends, _currents())
def test_the_result_contains_every_edit_of_the_file(base: Backend, file: Backend, current: Current) -> None:
    """If the file was edited last, all its additions are there, and none of its removals."""
    after = _applied(base, file, current)
    for name, user in file.users.items():
        old = base.users.get(name)
        if user == old:
            continue
        found = after.users[name]
        if old is None or user.me != old.me:
            assert found.me == user.me or (old is None and not user.me)
        if user.filters != (old or UserConfig()).filters:
            assert found.filters == user.filters
        for channel in user.channels:
            _contains(old.by_uid().get(channel.uid) if old else None, channel, found.by_uid().get(channel.uid))
        for channel in old.channels if old else ():
            if user.by_uid().get(channel.uid) is None and channel.uid != NOTIFICATIONS:
                assert found.by_uid().get(channel.uid) is None
    for name in base.users:
        if name not in file.users:
            assert name not in after.users


def _contains(old: ChannelConfig | None, file: ChannelConfig, found: ChannelConfig | None) -> None:
    if file == old:
        return
    before = old or ChannelConfig(file.uid, "")
    assert found is not None
    assert found.name == file.name or file.name == before.name or file.uid == NOTIFICATIONS
    feeds = {feed.url: feed for feed in found.feeds}
    old_feeds = {feed.url: feed for feed in before.feeds}
    for feed in file.feeds:
        if old_feeds.get(feed.url) != feed:
            assert feed.url in feeds
            assert feeds[feed.url].name == feed.name or (feed.url not in old_feeds and feed.name is None)
    assert not (set(old_feeds) - {feed.url for feed in file.feeds}) & set(feeds)
    assert set(file.mute) - set(before.mute) <= set(found.mute)
    assert not (set(before.mute) - set(file.mute)) & set(found.mute)


@_settings
@given(_backends, _backends, _currents(), st.sampled_from([EARLY, LATE]))
def test_users_own_changes_survive_other_edits(base: Backend, file: Backend, current: Current, at: float) -> None:
    """Channels, feeds and rules that neither the old nor the new file names don't change."""
    after = _applied(base, file, current, at)
    for name, user in current.users.items():
        if name in base.users and name not in file.users:
            continue
        known = [each.users[name] for each in (base, file) if name in each.users]
        found = after.users[name]
        for channel in user.channels:
            declared = [each.by_uid().get(channel.uid) for each in known]
            left = found.by_uid().get(channel.uid)
            if all(each is None for each in declared):
                assert left == channel
            elif left is not None:
                named = {feed.url for each in declared if each for feed in each.feeds}
                assert {feed for feed in channel.feeds if feed.url not in named} <= set(left.feeds)
        mine = [uid for uid in _uids(user) if all(each.by_uid().get(uid) is None for each in known)]
        assert [uid for uid in _uids(found) if uid in mine] == mine


def _uids(user: UserConfig) -> list[str]:
    return [channel.uid for channel in user.channels]


@_settings
@given(_backends, _currents())
def test_write_back_gives_the_current_state(file: Backend, current: Current) -> None:
    """The new file is valid, has the state of every active user, and a second write-back has nothing to write."""
    document = parse(json.dumps(encode(file)).encode(), "b.json", {})
    raw = edited(document, current)
    if raw is None:
        raw = dict(document.raw)
    new = parse(rewrite(document.source, raw).encode(), "b.json", {})
    assert edited(new, current) is None
    assert new.backend.settings == document.backend.settings
    for name, user in current.users.items():
        found = new.backend.users[name]
        assert (found.me, found.mute, found.block) == (user.me, user.mute, user.block) or set(found.mute) == set(
            user.mute
        )
        listed = [uid for uid in _uids(found) if uid != NOTIFICATIONS]
        assert listed == [uid for uid in _uids(user) if uid != NOTIFICATIONS]
        for channel in user.channels:
            written = found.by_uid().get(channel.uid)
            if written is None:
                assert channel.uid == NOTIFICATIONS
                assert not channel.feeds
                continue
            assert written.name == channel.name or channel.uid == NOTIFICATIONS
            assert set(written.feeds) == set(channel.feeds)
            assert written.settings == channel.settings
    for name in set(file.users) - set(current.users):
        assert new.backend.users[name] == document.backend.users[name]


@_settings
@given(_backends)
def test_the_canonical_document_means_the_same(backend: Backend) -> None:
    """The recorded document is what was applied."""
    assert decode(Backend, encode(backend)) == backend


def test_notifications_stay_where_the_file_has_them() -> None:
    """The position of `notifications` in the file has no meaning, so writing back keeps it."""
    listed = [{"uid": uid, "name": uid} for uid in ("u", "w", "notifications")]
    text = json.dumps({"users": {"bo": {"channels": listed}}}).encode()
    document = parse(text, "b.json", {})
    made = [ChannelConfig(uid, uid) for uid in ("notifications", "v", "u")]
    current = Current({"bo": UserConfig(channels=tuple(made))})
    raw = edited(document, current)
    assert raw is not None
    new = parse(rewrite(document.source, raw).encode(), "b.json", {})
    assert [channel.uid for channel in new.backend.users["bo"].channels] == ["v", "u", "notifications"]
    assert edited(new, current) is None
