"""Users and what is registered of them: channels in their lists, tokens, rules, subscriptions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from microsub.configuration.store import is_setting
from microsub.formats.identity import canonical_feed_url, normalise_profile
from microsub.model.moments import moment, number
from microsub.model.reader import GLOBAL, NAME, NOTIFICATIONS
from microsub.store import identitykeys, keys
from microsub.store.behind import waiting
from microsub.store.channeltext import settings_in
from microsub.store.check.findings import Adopt, Call, Commands, Findings
from microsub.store.check.seen import Reader, Seen, batched, pairs
from microsub.store.departure import USER_KEYS
from microsub.store.port import Command
from microsub.store.subscriptions import read_subscription

AREA = "users"
_AT_ONCE = 50
_NO_KEY = -2
"""The time to live of a key that has ended meanwhile."""

_SETTLING = 300.0
"""Seconds after a follow during which the feed's own list may not know of it yet: the timeline is filled first."""


@dataclass(frozen=True, slots=True)
class _Lists:
    """A user's channels as listed; `disabled` says that none of them counts at the moment."""

    active: set[str]
    removed: set[str]
    disabled: bool


async def examine(reader: Reader, seen: Seen, found: Findings) -> None:
    """The settings in force, and all users, listed or not."""
    for name, text in pairs((await reader.walk("HSCAN", [keys.settings()]))[keys.settings()]).items():
        if not is_setting(name, text.encode()):
            # Every worker asks for them; without, the defaults hold.
            remedy = Commands((("HDEL", keys.settings(), name),))
            found.add(AREA, f"{keys.settings()} {name}", "can't be read; edit backend.json to set it anew", remedy)
    members = {name async for names in reader.stream("SSCAN", keys.users()) for name in names}
    listed = set(_named(found, keys.users(), "SREM", members))
    for batch in batched(sorted(listed | seen.users.keys()), _AT_ONCE):
        commands: list[Command] = []
        for user in batch:
            commands += [
                ("HMGET", keys.user(user), "me", "created", "disabled"),
                ("ZRANGE", keys.channels(user), 0, -1),
                ("ZRANGE", keys.removed_channels(user), 0, -1),
                ("SMEMBERS", keys.tokens(user)),
                ("ZRANGE", identitykeys.foreign(user), 0, -1),
            ]
        replies = await reader.ask(commands)
        for place, user in enumerate(batch):
            record, *lists, tokens, foreign = replies[5 * place : 5 * place + 5]
            active, removed = (
                _named(found, key(user), "ZREM", members or ())
                for key, members in zip((keys.channels, keys.removed_channels), lists, strict=True)
            )
            found.examined["users"] += 1
            _user(seen, found, user, user in listed, record)
            disabled = bool(record and record[2] is not None)
            uids = _channels(seen, found, user, active, removed, disabled)
            seen.channels[user] = uids
            _tokens(seen, found, user, {*_texts(tokens), *_texts(foreign)})
            await _tokens_whole(reader, seen, found, user)
            await _waiting(reader, seen, found, user)
            await _each_channel(reader, seen, found, user, uids, _Lists(set(active), set(removed), disabled))


def _named(found: Findings, key: str, take_out: str, members: Iterable[bytes]) -> list[str]:
    """The names that a list of users or channels holds; no other member has ever been one."""
    names = []
    for member in members:
        name = member.decode("utf-8", "replace")
        if NAME.match(name):
            names.append(name)
        else:
            found.add(AREA, f"{key} {name}", "no name that anything could have", Commands(((take_out, key, member),)))
    return names


def _user(seen: Seen, found: Findings, user: str, listed: bool, record: Sequence[bytes | None] | None) -> None:
    key = keys.user(user)
    if key in seen.wrong:
        return
    # `user_create` asks for `me`: without it, the record would be taken for missing.
    missing = record is None or record[0] is None or record[1] is None
    if not missing and not listed:
        found.add(AREA, key, "a user who isn't listed", Commands((("SADD", keys.users(), user),)))
    if not missing and record is not None:
        times = zip(("created", "disabled"), record[1:], strict=True)
        broken = [name for name, value in times if value is not None and moment(value) is None]
        if broken:
            # Who is disabled stays so, and can be restored for as long as if it had been done now.
            values = tuple(("HSET", key, name, f"{seen.now:.3f}") for name in broken)
            found.add(AREA, key, f"not a number: {', '.join(broken)}", Commands(values))
        return
    if "channel" in seen.users.get(user, ()) or "channels" in seen.users.get(user, ()):
        found.add(AREA, key, "channels without their user's record", Adopt(user))
        return
    if listed:
        found.add(AREA, key, "a listed user without a record", Commands((("SREM", keys.users(), user),)))
    remains = [name(user) for name in USER_KEYS if name.__name__ in seen.users.get(user, ())]
    remains += [keys.token(user, digest) for digest in seen.tokens.pop(user, ())]
    if remains:
        remedy = Commands(tuple(("DEL", name) for name in remains))
        found.add(AREA, key, "remains of a user who is gone", remedy)


def _channels(
    seen: Seen, found: Findings, user: str, active: Sequence[str], removed: Sequence[str], is_leaving: bool
) -> list[str]:
    """Hold the lists of channels against the channels' keys; all uids that are a channel, or will be.

    A disabled user may be leaving, channel by channel.
    """
    kinds = seen.channel_keys.get(user, {})
    registered = {*active, *removed}
    for uid in sorted(registered | kinds.keys() - {GLOBAL}):
        described = "channel" in kinds.get(uid, ())
        what = None
        if uid in registered and not described:
            what = "a listed channel without a description"
        elif described and uid not in registered:
            what = "a channel that is in no list"
        elif uid in active and uid in removed:
            what = "a channel that is in both lists"
        if what:
            found.add(AREA, keys.channel(user, uid), what, _mend(user, uid, seen.now))
        elif uid not in registered:
            names = [key(user, uid) for key in keys.CHANNEL_KEYS]
            remedy = Call("channel_remains", (keys.channels(user), keys.removed_channels(user), *names), (uid,))
            found.add(AREA, keys.channel(user, uid), "remains of a channel that is gone", remedy)
    if "user" in seen.users.get(user, ()) and NOTIFICATIONS not in registered and not is_leaving:
        found.add(AREA, keys.channel(user, NOTIFICATIONS), "missing, though everybody has it", Adopt(user))
    found.examined["channels"] += len(registered)
    return sorted(registered | {uid for uid in kinds if uid != GLOBAL and "channel" in kinds[uid]})


def _mend(user: str, uid: str, now: float) -> Call:
    names = (keys.channels(user), keys.removed_channels(user), keys.channel(user, uid), keys.user(user))
    return Call("channel_mend", names, (uid, f"{now:.3f}"))


def _tokens(seen: Seen, found: Findings, user: str, listed: set[str]) -> None:
    """A token that isn't listed can't be revoked. A listed one that isn't there has expired, which is no fault."""
    for digest in sorted(seen.tokens.get(user, set()) - listed):
        remedy = Commands((("SADD", keys.tokens(user), digest),))
        found.add(AREA, keys.token(user, digest), "a token that isn't listed", remedy)


async def _tokens_whole(reader: Reader, seen: Seen, found: Findings, user: str) -> None:
    digests = sorted(seen.tokens.get(user, ()))
    commands: list[Command] = []
    for digest in digests:
        key = keys.token(user, digest)
        commands += [("HMGET", key, "scope", "client", "created", "expires"), ("TTL", key)]
    replies = await reader.ask(commands)
    found.examined["tokens"] += len(digests)
    for digest, row, ttl in zip(digests, replies[0::2], replies[1::2], strict=True):
        if row is None or ttl == _NO_KEY:
            continue
        key, (scope, client, created, expires) = keys.token(user, digest), row
        ends = moment(expires)
        if scope is None or (expires is not None and ends is None):
            found.add(AREA, key, "a token that allows nothing", Commands((("DEL", key),)))
        elif client is None or moment(created) is None:
            values = ("HSET", key, "client", client or "", "created", f"{seen.now:.3f}")
            found.add(AREA, key, "a token without client or date", Commands((values,)))
        elif ends is not None and ttl == -1:
            remedy = Commands((("EXPIREAT", key, int(ends) + 1),))
            found.add(AREA, key, "a token that expires and would stay", remedy)


async def _waiting(reader: Reader, seen: Seen, found: Findings, user: str) -> None:
    """A note that can't be read is never taken back, and every request looks at it in vain."""
    key = keys.behind(user)
    if "behind" not in seen.users.get(user, ()) or key in seen.wrong:
        return
    for field, value in pairs((await reader.walk("HSCAN", [key]))[key]).items():
        if waiting(field.encode(), value.encode()) is None:
            found.add(AREA, f"{key} {field}", "a note that can't be read", Commands((("HDEL", key, field),)))


async def _each_channel(
    reader: Reader, seen: Seen, found: Findings, user: str, uids: Sequence[str], lists: _Lists
) -> None:
    """Descriptions, subscriptions and rules of a user's channels."""
    heads = await reader.ask(
        [("HMGET", keys.channel(user, uid), "name", "removed", "position", "settings") for uid in uids]
    )
    for uid, head in zip(uids, heads, strict=True):
        if head is not None and "channel" in seen.channel_keys.get(user, {}).get(uid, ()):
            _head(seen, found, user, uid, head, lists)
    ruled = [(keys.muted, "muted"), (keys.blocked, "blocked")]
    rules = [
        key(user, uid)
        for uid, kinds in seen.channel_keys.get(user, {}).items()
        for key, name in ruled
        if name in kinds and key(user, uid) not in seen.wrong
    ]
    for key, flat in (await reader.walk("HSCAN", rules)).items():
        _rules(found, key, pairs(flat))
    follows = await reader.walk("HSCAN", [keys.channel_feeds(user, uid) for uid in uids])
    unfilled = await reader.walk("HSCAN", [keys.channel_unfilled(user, uid) for uid in uids])
    for uid in uids:
        feeds = pairs(follows[keys.channel_feeds(user, uid)])
        _subscriptions(seen, found, user, uid, feeds, uid in lists.active and not lists.disabled)
        for feed in pairs(unfilled[keys.channel_unfilled(user, uid)]).keys() - feeds.keys():
            key = keys.channel_unfilled(user, uid)
            found.add(AREA, f"{key} {feed}", "waits for a feed that isn't followed", Commands((("HDEL", key, feed),)))


def _head(seen: Seen, found: Findings, user: str, uid: str, head: Sequence[bytes | None], lists: _Lists) -> None:
    name, removed, position, settings = head
    key = keys.channel(user, uid)
    if name is None:
        found.add(AREA, key, "a channel without a name", _mend(user, uid, seen.now))
    elif (text := name.decode("utf-8", "replace")).encode() != name:
        found.add(AREA, key, "a name that is no text", Commands((("HSET", key, "name", text),)))
    is_active = uid in lists.active
    if is_active and removed is not None:
        found.add(AREA, key, "a channel that is listed and marked as removed", _mend(user, uid, seen.now))
    listed_elsewhere = uid in lists.removed and not is_active
    if listed_elsewhere and (number(removed) is None or number(position) is None):
        found.add(AREA, key, "a removed channel that couldn't come back", _mend(user, uid, seen.now))
    if settings_in(settings or b"") is None:
        remedy = Commands((("HDEL", key, "settings"),))
        found.add(AREA, key, "settings that can't be read", remedy)


def _rules(found: Findings, key: str, rules: Mapping[str, str]) -> None:
    found.examined["rules"] += len(rules)
    for form, given in rules.items():
        right = normalise_profile(given)
        if right != form:
            remedy = Commands((("HSET", key, right, given), ("HDEL", key, form)))
            found.add(AREA, f"{key} {form}", "a rule under a form of its URL that is never asked for", remedy)


def _subscriptions(seen: Seen, found: Findings, user: str, uid: str, feeds: Mapping[str, str], counts: bool) -> None:
    key = keys.channel_feeds(user, uid)
    found.examined["subscriptions"] += len(feeds)
    for feed, text in feeds.items():
        value = read_subscription(feed, text.encode())
        if value is None:
            # Nobody can say any more what was followed there; what the timeline holds stays.
            remedy = Commands((("HDEL", key, feed),))
            found.add(AREA, f"{key} {feed}", "a subscription that can't be read", remedy)
            continue
        seen.wanted.setdefault(feed, canonical_feed_url(value.url))
        if counts:
            at = value.followed_at
            seen.followed[feed][user, uid] = at
            if seen.now - _SETTLING < at <= seen.now:
                seen.fresh.add((feed, user, uid))


def _texts(reply: Sequence[bytes] | None) -> list[str]:
    return [member.decode("utf-8", "replace") for member in reply or ()]
