"""Output feeds in Redis. Times are Unix seconds.

All keys of a feed share its user's slot, so each step is one script. The secret of an address is in the feed's own
record, because lists show the address again. The key from an address to its feed is only the secret's SHA-256, so
neither key names nor slow logs show the secret.
"""

from __future__ import annotations

import secrets
import uuid
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import cast

import orjson

from microsub.base.digests import sha256_hex
from microsub.base.errors import AddressRevoked, InvalidRequest, NotFound, QuotaReached, TooManyRequests
from microsub.configuration.model import OutputConfig, Republish, encode
from microsub.feeds import MOST_ITEMS, OutputFeed, OutputItem, OutputRow, PostVersion, require_name
from microsub.model.reader import GLOBAL
from microsub.model.settings import Filters
from microsub.redis import keys
from microsub.redis.protocol import Arg, Redis
from microsub.redis.replies import fields as fields_of
from microsub.redis.replies import reading, score_text, text, texts
from microsub.redis.scan import members_at
from microsub.redis.scripts import BATCH, batches, load
from microsub.redis.structures import Hash, Members, Scores, existing, together
from microsub.timelines import ArrivedItems, keep_order, last_position, read_newcomers, shown_among

ARCHIVE = 50
"""Items of one archive document (RFC 5005), and items that leave together when a feed has too many."""

HELD = 180.0
"""Seconds after which a reservation of impressions ends by itself; longer than any reply may take."""

_HELD_KEY = 600
_REPLIES = 1000
_ADDRESSES = 1000
_REMOVED = 2000
_TIMES = 100
_TEXTS = ("title", "description", "image", "author", "language", "channel", "search")
"""Settings that are texts."""


class OutputFeeds:
    """The output feeds of all users, their items and impressions."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    # --- feeds

    async def create(self, user: str, name: str, settings: OutputConfig, now: float, *, most: int = 0) -> OutputFeed:
        """Create an output feed; `most` is the user's quota, 0 for none, without removed feeds.

        Nothing of a removed feed with the same name comes back. Raises InvalidRequest if the name exists, QuotaReached,
        and NotFound for an unknown user.
        """
        await self._write(user, name, "create", now, await self._said(user, settings), most)
        return await self.get(user, name)

    async def put(self, user: str, name: str, settings: OutputConfig, now: float) -> OutputFeed:
        """Create an output feed or change its settings; a removed one comes back. Raises as `create` does."""
        await self._write(user, name, "put", now, await self._said(user, settings))
        return await self.get(user, name)

    async def change(self, user: str, name: str, settings: OutputConfig, now: float) -> OutputFeed:
        """Change the settings. Raises NotFound."""
        await self._write(user, name, "change", now, await self._said(user, settings))
        return await self.get(user, name)

    async def remove(self, user: str, name: str, now: float) -> None:
        """Stop serving a feed until `put` or `delete`; its items stay. Raises NotFound."""
        await self._write(user, name, "remove", now)

    async def delete(self, user: str, name: str, now: float) -> None:
        """Delete a feed permanently; its address replies 410 from then on. Raises NotFound."""
        await self._write(user, name, "delete", now)

    async def renew(self, user: str, name: str, now: float) -> OutputFeed:
        """Give a feed a new address, and revoke the old one. Raises NotFound."""
        await self._write(user, name, "renew", now)
        return await self.get(user, name)

    async def revoke(self, user: str, name: str, now: float) -> OutputFeed:
        """Revoke a feed's address; it has none until `renew`. Raises NotFound, InvalidRequest if public."""
        await self._write(user, name, "revoke", now)
        return await self.get(user, name)

    async def get(self, user: str, name: str) -> OutputFeed:
        """The feed. Raises NotFound, also for a removed feed."""
        record = await self._redis.command("HGETALL", keys.output(user, require_name(name)))
        found = _feed(user, name, record)
        if found is None or found.removed is not None:
            raise _missing(name)
        return found

    async def all_of(self, user: str, *, removed_too: bool = False) -> list[OutputFeed]:
        """All output feeds of the user, by name."""
        names = sorted(texts(await self._redis.command("SMEMBERS", keys.outputs(user))))
        replies = await self._redis.pipeline([("HGETALL", keys.output(user, name)) for name in names])
        found = (_feed(user, name, reply) for name, reply in zip(names, replies, strict=True))
        return [feed for feed in found if feed is not None and (removed_too or feed.removed is None)]

    async def find(self, user: str, secret: str) -> OutputFeed:
        """The feed at an address. Raises NotFound, and AddressRevoked for a revoked address."""
        name, disabled = await self._redis.pipeline(
            [("HGET", keys.output_addresses(user), sha256_hex(secret)), ("HEXISTS", keys.user(user), "disabled")]
        )
        if name == b"" and not disabled:
            raise AddressRevoked
        found = (
            None
            if name is None
            else _feed(user, text(name), await self._redis.command("HGETALL", keys.output(user, text(name))))
        )
        if found is None or found.removed is not None or disabled:
            raise NotFound("there is no such feed")
        return found

    async def find_public(self, user: str, name: str) -> OutputFeed:
        """The public feed of that name. Raises NotFound."""
        record, disabled = await self._redis.pipeline(
            [("HGETALL", keys.output(user, name)), ("HEXISTS", keys.user(user), "disabled")]
        )
        found = _feed(user, name, record)
        if found is None or found.removed is not None or not found.settings.public or disabled:
            raise NotFound("there is no such feed")
        return found

    async def _write(
        self, user: str, name: str, action: str, now: float, fields: Mapping[str, str] | None = None, most: int = 0
    ) -> None:
        require_name(name)
        while True:
            former = text(await self._redis.command("HGET", keys.output(user, name), "secret")) or ""
            secret = secrets.token_urlsafe(24)
            call = load("output_write")(
                user,
                name,
                name=name,
                now=score_text(now),
                action=action,
                most=most,
                id=str(uuid.uuid4()),
                secret=secret,
                digest=sha256_hex(secret),
                most_addresses=_ADDRESSES,
                former=former,
                former_digest=sha256_hex(former),
                fields=[*chain(*(fields or {}).items())],
            )
            reply = await self._redis.script(call)
            if text(reply[0]) != "changed":
                self._check(reply, user, name, most)
                return

    async def _said(self, user: str, settings: OutputConfig) -> dict[str, str]:
        """The settings as the record stores them, and the channel's time of creation, since its uid may be reused."""
        if settings.channel is None:
            return {**_fields(settings), "source": ""}
        made = await self._redis.command("HGET", keys.channel(user, settings.channel), "created")
        return {**_fields(settings), "source": text(made) or ""}

    async def has_source(self, feed: OutputFeed, now: float) -> bool:
        """Whether the feed's channel exists, and is still the one that the feed was given.

        A feed whose channel didn't exist yet gets the first channel with that uid.
        """
        channel = feed.settings.channel
        if channel is None:
            return True
        created, removed = await self._redis.command("HMGET", keys.channel(feed.user, channel), "created", "removed")
        if created is None or removed is not None:
            return False
        if feed.source is None:
            await self._write(feed.user, feed.name, "change", now, {"source": text(created)})
        return feed.source in {None, text(created)}

    @staticmethod
    def _check(reply: Sequence[bytes], user: str, name: str, most: int) -> None:
        match text(reply[0]):
            case "user":
                raise NotFound(f"there is no user '{user[:80]}'")
            case "missing":
                raise _missing(name)
            case "taken":
                raise InvalidRequest(f"there is an output feed '{name}' already")
            case "full":
                raise QuotaReached("output feeds", int(reply[1]), most)

    # --- items

    async def edit(
        self,
        feed: OutputFeed,
        action: str,
        items: Mapping[str, PostVersion],
        now: float,
        *,
        most: int = MOST_ITEMS,
        times: Mapping[str, float] | None = None,
    ) -> int:
        """Do `action` (see the script) to items, given with their posts' versions; returns how many changed.

        `times` are those of publication, if they aren't `now`; of several items the last is the newest. Raises
        NotFound, and QuotaReached, without a change, if there would be more than `most`.
        """
        changed = 0
        published = times or {item: now + position * 1e-6 for position, item in enumerate(items)}
        for batch in batches(list(items.items())):
            rows = [part for item, at in batch for part in (item, _words(at), score_text(published[item]))]
            limits = {"most": most, "removed": _REMOVED, "archive": ARCHIVE}
            call = load("output_edit")(feed.user, feed.name, now=score_text(now), action=action, **limits, items=rows)
            reply = await self._redis.script(call)
            if text(reply[0]) == "missing":
                raise _missing(feed.name)
            if text(reply[0]) == "full":
                raise QuotaReached(f"items of the output feed '{feed.name}'", int(reply[1]), most)
            changed += int(reply[1])
        return changed

    async def restore(
        self, feed: OutputFeed, items: Sequence[OutputItem], versions: Mapping[str, PostVersion], now: float
    ) -> int:
        """Add items with the state that they had elsewhere, given their posts' versions; returns how many.

        Items that were ever in the feed aren't changed. Raises NotFound.
        """
        count = 0
        for batch in batches(items):
            rows: list[Arg] = []
            for one in batch:
                times = ["" if at is None else score_text(at) for at in (one.published, one.imported, one.edited)]
                shown = " ".join([str(one.impressions), *map(score_text, one.times)]) if one.impressions else ""
                rows += [one.id, _words(versions.get(one.id, PostVersion())), *times, shown]
            reply = await self._redis.script(
                load("output_restore")(feed.user, feed.name, now=score_text(now), items=rows)
            )
            if text(reply[0]) == "missing":
                raise _missing(feed.name)
            count += int(reply[1])
        return count

    async def rows(self, feed: OutputFeed, now: float, limit: int = MOST_ITEMS) -> list[OutputRow]:
        """The rows that the feed shows now, newest publication first."""
        earliest = score_text(now - feed.settings.max_age) if feed.settings.max_age else "-inf"
        call = load("output_rows")(feed.user, feed.name, now=score_text(now), earliest=earliest, most=limit)
        lines = texts(await self._redis.script(call))
        found = (line.split(" ", 2) for line in lines)
        return [_row(item, float(time), edition) for item, time, edition in found]

    async def items(self, feed: OutputFeed, limit: int, offset: int = 0) -> list[OutputItem]:
        """The items with their state, most recently edited first."""
        user, name = feed.user, feed.name
        last = offset + limit - 1
        found = await self._redis.command("ZREVRANGE", keys.output_edited(user, name), offset, last, "WITHSCORES")
        ids = texts(found[0::2])
        scores = (Scores(self._redis, key(user, name)) for key in (keys.output_published, keys.output_imported))
        hashes = (Hash(self._redis, key(user, name)) for key in (keys.output_impressions, keys.output_editions))
        columns = await together(*(structure.get_many(ids) for structure in (*scores, *hashes)))
        return [_item(*row) for row in zip(ids, found[1::2], *columns, strict=True)]

    async def size(self, feed: OutputFeed) -> tuple[int, int]:
        """How many items are published, and how many imported."""
        return (await self.sizes([feed]))[0]

    async def set_back(self, feed: OutputFeed, ids: Sequence[str], now: float) -> None:
        """Give items, newest first, that were published while the clock was ahead, `now` as their time, once."""
        times = [part for place, item in enumerate(ids) for part in (score_text(now - place * 1e-6), item)]
        await self._redis.pipeline(
            [
                ("HSET", keys.output(feed.user, feed.name), "modified", score_text(now)),
                ("ZADD", keys.output_published(feed.user, feed.name), "XX", "LT", *times),
            ]
        )

    async def sizes(self, feeds: Sequence[OutputFeed]) -> list[tuple[int, int]]:
        """The sizes of all these feeds, in one round trip."""
        both = (keys.output_published, keys.output_imported)
        sets = (Scores(self._redis, key(feed.user, feed.name)) for feed in feeds for key in both)
        counts = await together(*(one.count() for one in sets))
        return [(published, imported) for published, imported in batches(counts, len(both))]

    async def is_new(self, feed: OutputFeed) -> bool:
        """Whether the feed never had an item."""
        return not await existing(self._redis, keys.output_edited(feed.user, feed.name))

    async def latest(self, feed: OutputFeed) -> float:
        """The time of the latest publication in the feed, 0 if there is none."""
        return await Scores(self._redis, keys.output_published(feed.user, feed.name)).last() or 0.0

    async def imported(self, feed: OutputFeed, limit: int) -> dict[str, PostVersion]:
        """The versions in which the most recently imported items were published."""
        ids = texts(await self._redis.command("ZREVRANGE", keys.output_imported(feed.user, feed.name), 0, limit - 1))
        known = await Hash(self._redis, keys.output_editions(feed.user, feed.name)).known(ids)
        return {item: _row(item, 0.0, known.get(item, "")).version for item in ids}

    async def newest(self, feed: OutputFeed, uid: str, limit: int) -> list[str]:
        """The newest items of a channel of the feed's user."""
        return texts(await self._redis.command("ZREVRANGE", keys.posts(feed.user, uid), 0, limit - 1))

    async def last_position(self, feed: OutputFeed, items: ArrivedItems, now: float) -> int:
        """The last position in the order of arrival, which is kept from now on: whatever arrives later is after it."""
        await keep_order(self._redis, items, feed.user, now)
        return await last_position(self._redis, feed.user)

    async def newcomers(self, feed: OutputFeed, uid: str, after: int, limit: int) -> tuple[list[str], int, bool]:
        """The items that arrived in a channel, or (`global`) in any channel, after a position; see `read_newcomers`."""
        return await read_newcomers(self._redis, feed.user, uid, after, limit)

    async def note_taken(self, feed: OutputFeed, source: str, position: int) -> None:
        """Record the position up to which the `source` was read, unless the settings have changed since."""
        await self._redis.script(
            load("output_taken")(feed.user, feed.name, recorded=feed.taken_from, source=source, position=position)
        )

    async def never_in(self, feed: OutputFeed, ids: Sequence[str]) -> list[str]:
        """The ids that were never in the feed."""
        known = await Scores(self._redis, keys.output_edited(feed.user, feed.name)).get_many(ids)
        return [item for item, score in zip(ids, known, strict=True) if score is None]

    async def in_channels(self, user: str, ids: Sequence[str]) -> list[str]:
        """The ids that are in a channel of the user."""
        return await shown_among(self._redis, user, GLOBAL, ids)

    async def among(self, feed: OutputFeed, ids: Sequence[str]) -> list[str]:
        """The ids that are published or imported in the feed."""
        sets = [key(feed.user, feed.name) for key in (keys.output_published, keys.output_imported)]
        there = await members_at(self._redis, sets, ids)
        return [item for item in ids if item in there]

    # --- impressions

    async def reserve(self, feed: OutputFeed, rows: Iterable[OutputRow], now: float) -> tuple[str, frozenset[str]]:
        """Reserve an impression of each row that has one left, until `settle`; the reservation's name, and their items.

        Raises TooManyRequests if too many replies are being sent.
        """
        reply = secrets.token_hex(8)
        call = load("output_reserve")(
            feed.user,
            feed.name,
            now=score_text(now),
            until=score_text(now + HELD),
            reply=reply,
            most=_REPLIES,
            life=_HELD_KEY,
            items=[part for row in rows for part in (row.item, row.edition)],
        )
        found = await self._redis.script(call)
        if text(found[0]) == "busy":
            raise TooManyRequests(f"more than {_REPLIES} replies with this feed are being sent", 5)
        return reply, frozenset(texts(found[1:]))

    async def settle(self, feed: OutputFeed, reservation: str, now: float, *, shown: Iterable[str] = ()) -> bool:
        """Count the impressions of items that are sent next; with none, return those that weren't counted.

        False if the reservation has expired.
        """
        sent = {"now": score_text(now), "reply": reservation, "times": _TIMES, "items": [*shown]}
        return bool(await self._redis.script(load("output_settle")(feed.user, feed.name, **sent)))

    # --- for upkeep, and the check

    async def forget_removed(self, users: Iterable[str], before: float) -> None:
        """Delete the feeds that were removed from backend.json before that time."""
        for user in users:
            for feed in await self.all_of(user, removed_too=True):
                if feed.removed is not None and feed.removed < before:
                    await self.delete(user, feed.name, before)

    async def references(self, user: str) -> AsyncIterator[list[str]]:
        """Ids that the user's output feeds show or have shown, in batches; the store keeps their posts."""
        for name in texts(await Members(self._redis, keys.outputs(user)).all()):
            for key in (keys.output_published(user, name), keys.output_imported(user, name)):
                for batch in batches(await Scores(self._redis, key).names(), BATCH):
                    yield list(batch)

    async def withdraw(self, user: str, ids: Collection[str], now: float) -> None:
        """Remove items from all output feeds of the user, because their posts are gone."""
        for feed in await self.all_of(user, removed_too=True):
            await self.edit(feed, "drop", dict.fromkeys(ids, PostVersion()), now)


def _missing(name: str) -> NotFound:
    return NotFound(f"there is no output feed '{name[:80]}'")


def _fields(settings: OutputConfig) -> dict[str, str]:
    """The settings as the record stores them: '' for unset ones."""
    filters = encode(settings.filters)
    return {
        **{name: getattr(settings, name) or "" for name in _TEXTS},
        "filters": orjson.dumps(filters).decode() if filters else "",
        "max_impressions": str(settings.max_impressions or ""),
        "max_age": str(settings.max_age or ""),
        "republish": settings.republish or "",
        "public": "1" if settings.public else "",
    }


def _feed(user: str, name: str, reply: Sequence[bytes]) -> OutputFeed | None:
    found = fields_of(reply)
    if "id" not in found:
        return None
    with reading(keys.output(user, name)):
        settings = OutputConfig(
            **{name: found.get(name) for name in _TEXTS},
            filters=Filters.of(orjson.loads(found.get("filters", "{}"))),
            max_impressions=int(found.get("max_impressions", 0)),
            max_age=int(found.get("max_age", 0)),
            republish=cast("Republish | None", found.get("republish")),
            public="public" in found,
        )
        return OutputFeed(
            user=user,
            name=name,
            id=found["id"],
            settings=settings,
            secret=found.get("secret"),
            created=float(found["created"]),
            changed=float(found["changed"]),
            modified=float(found["modified"]),
            removed=float(found["removed"]) if "removed" in found else None,
            source=found.get("source"),
            editions=int(found.get("editions", 0)),
            taken_from=found.get("taken_from", ""),
            position=int(found.get("place", 0)),
        )


def _words(version: PostVersion) -> str:
    return " ".join(word or "-" for word in version)


def _row(item: str, published: float, edition: str) -> OutputRow:
    """The row of an item's edition: its number, the post's version in two words, the time, and why it came again.

    An edition of an earlier release has only its number and one word of the version.
    """
    number, shown, own, _, again = [*edition.split(" "), "", "", "", ""][:5]
    return OutputRow(item, published, number, PostVersion(*(word.strip("-") for word in (shown, own))), again)


def _item(
    item: str,
    edited: bytes,
    published: bytes | None,
    imported: bytes | None,
    shown: bytes | None,
    edition: bytes | None,
) -> OutputItem:
    count, *times = text(shown or b"0").split(" ")
    before = [*text(edition or b"").split(" "), "", "", ""][3]
    at = published if published is not None or imported is None else before
    return OutputItem(
        id=item,
        state="published" if published is not None else "imported" if imported is not None else "removed",
        edited=float(edited),
        published=float(at) if at else None,
        imported=None if imported is None else float(imported),
        impressions=int(count),
        times=tuple(map(float, times)),
    )
