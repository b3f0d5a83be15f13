"""The store of a user's channels, their order and settings."""

from __future__ import annotations

import builtins
import math
import re
import time
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import lru_cache
from itertools import repeat
from typing import Any, get_type_hints

from microsub.accounts import absent, grant, unauthorized
from microsub.base.bounded_cache import BoundedCache
from microsub.base.errors import InvalidRequest, NotFound, QuotaReached
from microsub.configuration.model import Quotas
from microsub.model.reader import BUILT_IN, NAME, RESERVED, SAVED, Channel, Credential, Grant
from microsub.model.settings import Filters, OwnChannelSettings, UnreadStyle, stated
from microsub.redis import keys
from microsub.redis.protocol import Arg, Redis
from microsub.redis.replies import fields as text_fields
from microsub.redis.replies import reading, texts
from microsub.redis.replies import text as text_of
from microsub.redis.scripts import load
from microsub.timelines.channels.follows import Follows

LONGEST_NAME = 300
MOST_OF_NAME = 200
"""Longest name that an app or a list of feeds may give; the admin's file may exceed it."""
_UIDS_TO_TRY = 1000
_MOST_NAMES = 10_000
"""Maximum number of users whose channels a process caches."""

COMPARED, MOST_COMPARED, REPEATS_KEPT, REPEATS_GUESSED = 1000, 5000, 10.0, 1.0
"""See `Channels.distinct_counts`. Redis compares a thousand items in about 2 ms."""

FIELDS: tuple[str, ...] = tuple(one.name for one in fields(OwnChannelSettings))
"""The fields of a channel's hash that hold its own settings."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class ChannelNames:
    """The channels of a user in order, as of that shape; their counts aren't valid.

    The same object always has the same names and settings, so values derived from it can be cached by it.
    """

    shape: bytes
    channels: tuple[Channel, ...]


_AND_HIDDEN = -2
"""The reply of lua/channel_list.lua if too many items would have to be compared, and feeds are hidden in *All*."""


class Channels(Follows):
    """Channels and their follows.

    Every method raises NotFound for an unknown user or channel.
    """

    def __init__(self, redis: Redis) -> None:
        super().__init__(redis)
        self._names: BoundedCache[str, ChannelNames] = BoundedCache(_MOST_NAMES)
        self._repeats: BoundedCache[str, tuple[float, int, int]] = BoundedCache(_MOST_NAMES)

    async def list(self, user: str) -> builtins.list[Channel]:
        """All channels in the user's order, `notifications` first and `saved` last, with exact unread counts.

        One round trip. An unknown user has none.
        """
        _, _, _, _, counts, _, _, *rows = await self._read(user, b"", {}, 0)
        return _channels(rows, map(int, counts.split()))

    async def counts_with_token(
        self, credential: Credential, now: float, *, ordered: bool = False
    ) -> tuple[Grant, ChannelNames, builtins.list[bytes]]:
        """The channels of the token's user, and a snapshot of their unread counts, as digits.

        With `ordered` the grant is also `behind` if the order of arrival isn't kept yet. One round trip that checks the
        token too. Raises Unauthorized.
        """
        user = credential.user
        token = {"token": keys.token(user, credential.digest), "behind": keys.behind(user)}
        if ordered:
            token["arrivals_more"] = keys.arrivals_more(user)
        scopes, waiting, names, counts, *_ = await self._counted(user, token, now)
        return grant(user, scopes, behind=waiting), names, counts

    async def counts(self, user: str) -> tuple[ChannelNames, builtins.list[int]]:
        """A snapshot of the unread counts of all channels, and the channels; for frequent calls."""
        _, _, names, counts, *_ = await self._counted(user, {}, 0)
        return names, [*map(int, counts)]

    async def distinct_counts(self, user: str) -> tuple[ChannelNames, builtins.list[int], int, int]:
        """The same as `counts`, the number of unread items in *All*, each counted once whatever channels show it, and
        the number of saved items.

        One round trip. If the channels except the largest have more than `COMPARED` unread items together, there is
        another one at most every `REPEATS_KEPT` seconds, or `REPEATS_GUESSED` once the sum of the counts has changed:
        the number may be that old. With more than `MOST_COMPARED`, it is the sum of the counts.
        """
        _, _, names, found, distinct, saved = await self._counted(user, {}, 0, COMPARED)
        counts = [*map(int, found)]
        if distinct >= 0:
            return names, counts, distinct, saved
        hides, now, total = distinct == _AND_HIDDEN, time.monotonic(), sum(counts)
        at, of, repeats = self._repeats.get(user, (-math.inf, 0, 0))
        if now - at >= (REPEATS_KEPT if of == total else REPEATS_GUESSED):
            *_, found, distinct, _ = await self._counted(user, {}, 0, MOST_COMPARED)
            repeats = 0 if distinct < 0 else sum(map(int, found)) - distinct
            self._repeats[user] = now, total, repeats
        # Without hidden feeds, it is at least the number of the largest channel.
        return names, counts, max(total - repeats, 0 if hides else max(counts)), saved

    async def _counted(
        self, user: str, token: Mapping[str, str], now: float, compared: int = 0
    ) -> tuple[bytes, bool, ChannelNames, builtins.list[bytes], int, int]:
        """The token's scopes, whether posts wait, the channels with their counts, the distinct unread items, -1 if
        more than `compared` would have to be compared, `_AND_HIDDEN` if feeds are hidden, too, and the saved items.

        Raises Unauthorized.
        """
        known = self._names.get(user)
        reply = await self._read(user, known.shape if known else b"", token, now, compared)
        if reply[0]:
            raise unauthorized(text_of(reply[0]))
        _, scopes, waiting, shape, counts, distinct, saved, *rows = reply
        if known is None or known.shape != shape:
            known = ChannelNames(shape, tuple(_channels(rows, repeat(0))))
            self._names[user] = known
        return scopes, bool(waiting), known, counts.split(), distinct, saved

    async def _read(
        self, user: str, shape: bytes, token: Mapping[str, str], now: float, compared: int = 0
    ) -> builtins.list[Any]:
        call = load("channel_list")(
            user,
            posts=keys.posts(user, SAVED),
            **token,
            patterns=tuple(keys.pattern(key, user) for key in (keys.channel, keys.unread, keys.apart)),
            now=now,
            shape=shape,
            compared=compared,
            fields=("name", *FIELDS),
        )
        reply: builtins.list[Any] = await self._redis.script(call)
        return reply

    async def get(self, user: str, uid: str) -> Channel:
        """One channel. Raises NotFound, also for a removed one."""
        call = load("channel_get")(user, uid, fields=("name", "removed", *FIELDS))
        (name, removed, *settings), unread = await self._redis.script(call)
        if name is None or removed is not None:
            raise await absent(self._redis, user, uid)
        return Channel(uid, text_of(name), unread, read_settings(settings))

    async def changed(self, user: str, uids: Sequence[str]) -> dict[str, float]:
        """The Unix times when the channels' names or settings last changed, by uid; 0: never. One round trip."""
        replies = await self._redis.pipeline([("HGET", keys.channel(user, uid), "changed") for uid in uids])
        return {uid: float(reply or 0) for uid, reply in zip(uids, replies, strict=True)}

    async def create(self, user: str, name: str, now: float, uid: str | None = None, *, most: int = 0) -> Channel:
        """Create a channel, or find the one with that name (or with that uid, if given).

        A uid made from a name never changes. Raises InvalidRequest for a bad name, and for a uid that is reserved,
        malformed, or taken by a removed channel; QuotaReached if there are already `most` channels (0: any number;
        those that everybody has don't count).
        """
        name = _checked(name)
        if uid is None:
            base = slug(name)
            numbered = (f"{base[:60]}-{number}" for number in range(2, _UIDS_TO_TRY))
            candidates = [base, *numbered] if base not in RESERVED else list(numbered)
        else:
            if uid in RESERVED and uid not in BUILT_IN:
                raise InvalidRequest(f"the channel uid '{uid}' is reserved")
            if not NAME.match(uid):
                raise InvalidRequest(f"'{uid[:80]}' can't be a channel uid: expected 1 to 64 of A-Z a-z 0-9 _ -")
            candidates = [uid]
        reply = await self._redis.script(
            load("channel_create")(
                user, name=name, now=now, by="name" if uid is None else "uid", most=most, uids=candidates
            )
        )
        if reply[0] == b"" and len(reply) > 1:
            raise QuotaReached("channels", reply[1], most)
        if reply[0] == b"":
            raise await absent(self._redis, user)
        if len(reply) == 1:
            raise InvalidRequest(f"the channel uid '{uid or candidates[0]}' is taken by a removed channel")
        return await self.get(user, text_of(reply[0]))

    async def rename(self, user: str, uid: str, name: str, now: float) -> Channel:
        """Give the channel another name; its uid stays."""
        await self._change(user, uid, "set", "name", _checked(name), "changed", now)
        return await self.get(user, uid)

    async def set_settings(self, user: str, uid: str, settings: OwnChannelSettings, now: float) -> None:
        """Replace the channel's settings."""
        await self._change(user, uid, "set", *write_settings(settings), "changed", now)

    async def note_change(self, user: str, uid: str, now: float) -> None:
        """Note that something that backend.json declares of the channel has changed; see `changed`."""
        await self._change(user, uid, "set", "changed", now)

    async def unread_from(self, user: str, uid: str) -> dict[str, float]:
        """The scores below which items are added to the channel as read, by feed."""
        found = text_fields(await self._redis.command("HGETALL", keys.channel(user, uid)))
        names = {name: name.partition(" ")[2] for name in found if name.startswith("unread_from ")}
        return {feed: float(found[name]) for name, feed in names.items()}

    async def set_unread_from(self, user: str, uid: str, feed_id: str, score: float) -> None:
        """Add items of that feed with a lower score to the channel as read."""
        await self._change(user, uid, "set", f"unread_from {feed_id}", f"{score:.6f}")

    async def _change(self, user: str, uid: str, action: str, *args: Arg) -> builtins.list[str]:
        """Change the channel; returns the ids of the feeds that it follows, none if it was only `set`."""
        call = load("channel_change")(
            user,
            uid,
            others=[
                key(user, uid) for key in keys.CHANNEL_KEYS if key not in (keys.channel, keys.channel_feeds, keys.posts)
            ],
            uid=uid,
            action=action,
            rest=args,
        )
        found = await self._redis.script(call)
        if isinstance(found, bytes):
            what, count, most = text_of(found).rsplit(" ", 2)
            raise QuotaReached(what, int(count), int(most))
        if isinstance(found, int):
            raise await absent(self._redis, user, uid)
        return sorted(texts(found))

    async def order(self, user: str, uids: Sequence[str]) -> builtins.list[Channel]:
        """Permute the named channels within their positions; returns all in their new order.

        `notifications` stays first and `saved` last, named or not. If one is unknown, raises NotFound and changes
        nothing.
        """
        wished = [uid for uid in dict.fromkeys(uids) if uid not in BUILT_IN]
        unknown = await self._redis.script(load("channel_order")(user, uids=wished))
        if unknown:
            raise await absent(self._redis, user, text_of(unknown))
        return await self.list(user)

    async def delete(self, user: str, uid: str) -> builtins.list[str]:
        """Delete the channel, removed or not, with its timeline; returns the feeds it followed.

        The caller removes the channel from these feeds' followers. Raises InvalidRequest for one that everybody has.
        """
        if uid in BUILT_IN:
            raise InvalidRequest(f"the channel '{uid}' can't be deleted: every account has it")
        return await self._change(user, uid, "delete")

    async def delete_removed(self, user: str, uid: str) -> bool:
        """Delete a channel if it is removed; False if it isn't (any more)."""
        with suppress(NotFound):
            await self._change(user, uid, "delete removed")
            return True
        return False

    async def disable(self, user: str, uid: str, now: float) -> builtins.list[str]:
        """Remove a channel so that it can be restored; returns the ids of the feeds it follows.

        It isn't listed, read or filled, and keeps everything for `restore`. The caller removes it from the feeds'
        followers. A removed channel stays as it is. Raises InvalidRequest for one that everybody has.
        """
        if uid in BUILT_IN:
            raise InvalidRequest(f"the channel '{uid}' can't be removed: every account has it")
        return await self._change(user, uid, "remove", now)

    async def restore(self, user: str, uid: str, limits: Quotas | None = None) -> builtins.list[str]:
        """Undo `disable`; returns the feeds that the channel follows, for subscribing again.

        Raises QuotaReached if the user would then exceed `limits`.
        """
        counted = (keys.channel_feeds, keys.muted, keys.blocked)
        patterns = [keys.pattern(key, user) for key in counted]
        most = (limits.channels or 0, limits.feeds or 0, limits.rules or 0) if limits else (0, 0, 0)
        return await self._change(user, uid, "restore", *most, *patterns)

    async def uids(self, users: Sequence[str]) -> builtins.list[builtins.list[str]]:
        """The uids of each user's channels. One round trip."""
        replies = await self._redis.pipeline([("ZRANGE", keys.channels(user), 0, -1) for user in users])
        return [texts(reply) for reply in replies]

    async def removed_names(self, user: str) -> dict[str, str]:
        """The names of removed channels by uid, in the order of removal."""
        uids = list(await self.removed(user))
        names = await self._redis.pipeline([("HGET", keys.channel(user, uid), "name") for uid in uids])
        return {uid: text_of(name) for uid, name in zip(uids, names, strict=True) if name is not None}

    async def removed(self, user: str) -> dict[str, float]:
        """The Unix times of removal of removed channels, by uid."""
        reply = await self._redis.command("ZRANGE", keys.removed_channels(user), 0, -1, "WITHSCORES")
        return {text_of(uid): float(at) for uid, at in zip(reply[0::2], reply[1::2], strict=True)}


def _channels(rows: Iterable[Sequence[bytes]], counts: Iterable[int]) -> list[Channel]:
    return [
        Channel(text_of(uid), text_of(name or uid), unread, read_settings(values))
        for (uid, name, *values), unread in zip(rows, counts, strict=False)
    ]


def _checked(name: str) -> str:
    name = " ".join(name.split())
    if not name or len(name) > LONGEST_NAME:
        raise InvalidRequest(f"a channel's name has 1 to {LONGEST_NAME} characters; found {len(name)}")
    return name


def slug(name: str) -> str:
    """A uid made from a name: `[a-z0-9-]`, at most 64 characters, `channel` if nothing is left."""
    ascii_only = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9_]+", "-", ascii_only).strip("-")[:64].rstrip("-") or "channel"


def write_settings(settings: OwnChannelSettings) -> list[bytes]:
    """Field and value for each setting; an empty value if the channel has none."""
    own = stated(settings)
    return [part for name in FIELDS for part in (name.encode(), _setting_text(own[name]) if name in own else b"")]


def _setting_text(value: Any) -> bytes:
    return (value.stored() if isinstance(value, Filters) else str(value)).encode()


_READERS: Mapping[Any, Callable[[bytes], Any]] = {
    float | None: lambda text: float(text) if b"." in text else int(text),
    int | None: int,
    UnreadStyle | None: bytes.decode,
    bool | None: lambda text: text == b"True",
    Filters: Filters.read,
}
_READ = {name: _READERS[hint] for name, hint in get_type_hints(OwnChannelSettings).items() if name in FIELDS}


@lru_cache(maxsize=4096)
def _read(values: tuple[bytes | None, ...]) -> OwnChannelSettings:
    given = zip(FIELDS, values, strict=True)
    with reading(f"settings of a channel: {values!r}"):
        return OwnChannelSettings(**{name: _READ[name](value) for name, value in given if value})


def read_settings(values: Sequence[bytes | None]) -> OwnChannelSettings:
    """The settings in these values of `FIELDS`. Raises StoreDamaged."""
    return _read(tuple(values))
