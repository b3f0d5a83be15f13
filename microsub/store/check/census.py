"""Every key once: whether `store.keys` names it, its type, its time to live; and every item."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from microsub.store import keys, twins
from microsub.store.check.findings import Call, Commands, Findings, PutAside
from microsub.store.check.seen import Reader, Seen, number
from microsub.store.keynames import Kind, kind_of, looks_like_ours
from microsub.store.port import Command

AREA = "keys"
_LIVES = {"twins": twins.LIFETIME}
_OTHER_LIFE = 48 * 3600
_ITEM = ("ID", "score", "feed", "guid")

Named = tuple[str, Kind, Mapping[str, str]]


async def examine(reader: Reader, seen: Seen, found: Findings) -> None:
    """Walk over all keys; what they are is noted in `seen`."""
    seen.begun_at_item = await _counter(reader, keys.item_ids())
    feeds_at_first = await _counter(reader, keys.feed_ids())
    newest = {"item": 0, "feed": 0}
    async for batch in reader.redis.scan():
        named = await _sound(reader, seen, found, sorted(set(batch)))
        items = []
        for _, kind, values in named:
            _note(seen, kind, values)
            if kind.name == "item":
                items.append(values["item_id"])
            elif kind.name == "feed":
                newest["feed"] = max(newest["feed"], int(values["feed_id"]))
        await _items(reader, seen, found, [one for one in items if int(one) <= seen.begun_at_item])
        # Another server's items may lie here too, under names in hexadecimal, some of which look like large ids.
        later = [one for one in items if int(one) > seen.begun_at_item]
        placed = await reader.ask([("HEXISTS", keys.item(one), "score") for one in later])
        ours = [int(one) for one, is_ours in zip(later, placed, strict=True) if is_ours]
        newest["item"] = max((newest["item"], *ours))
        await _twins(reader, found, [key for key, kind, _ in named if kind.name == "twins"])
    for name, counter, first in (
        ("item", keys.item_ids(), seen.begun_at_item),
        ("feed", keys.feed_ids(), feeds_at_first),
    ):
        if newest[name] > max(first, await _counter(reader, counter)):
            remedy = Call("counter_raise", (counter,), (newest[name],))
            found.add(AREA, counter, "behind the ids that were given out already", remedy)


async def _sound(reader: Reader, seen: Seen, found: Findings, batch: Sequence[bytes]) -> list[Named]:
    """The keys of the batch that can be read, after a look at name, type and lifetime."""
    names = [key.decode("utf-8", "replace") for key in batch]
    known = [(name, *match) for name in names if (match := kind_of(name)) is not None]
    found.examined["keys"] += len(names)
    unnamed = set(names) - {name for name, _, _ in known}
    found.examined["keys of others"] += len(unnamed)
    for name in sorted(filter(looks_like_ours, unnamed)):
        found.add(AREA, name, "no key of this server, though it begins like one; look at it and delete it by hand")
    commands: list[Command] = []
    for name, _, _ in known:
        commands += [("TYPE", name), ("TTL", name)]
    replies = await reader.ask(commands)
    good = []
    for (name, kind, values), reply, ttl in zip(known, replies[0::2], replies[1::2], strict=True):
        type_ = reply.decode() if isinstance(reply, bytes) else str(reply)
        if type_ == "none":
            continue
        if kind.type is not None and type_ != kind.type:
            seen.wrong.add(name)
            found.add(AREA, name, f"of the wrong type: found {type_}, expected {kind.type}", PutAside(name))
            continue
        if ttl == -1 and not kind.may_stay:
            remedy = Commands((("EXPIRE", name, _LIVES.get(kind.name, _OTHER_LIFE)),))
            found.add(AREA, name, "without a time to live, which it needs", remedy)
        elif ttl >= 0 and kind.stays:
            found.add(AREA, name, "ends by itself, though it must stay", Commands((("PERSIST", name),)))
        if "feed_id" in values:
            seen.feed_keys[values["feed_id"]][kind.name] = ttl
        good.append((name, kind, values))
    return good


def _note(seen: Seen, kind: Kind, values: Mapping[str, str]) -> None:
    user = values.get("name")
    if user is not None and kind.prefix.startswith(keys.user("")[:-1]):
        seen.users[user].add(kind.name)
        if "uid" in values:
            seen.channel_keys[user][values["uid"]].add(kind.name)
        if kind.name == "token":
            seen.tokens[user].add(values["digest"])
    elif kind.name == "host_due":
        seen.hosts.add(values["host_name"])


async def _items(reader: Reader, seen: Seen, found: Findings, ids: Sequence[str]) -> None:
    """Note the items, and find those that nobody could be shown."""
    commands: list[Command] = []
    for item_id in ids:
        commands += [("HMGET", keys.item(item_id), *_ITEM), ("HSTRLEN", keys.item(item_id), "Data")]
    replies = await reader.ask(commands)
    found.examined["items"] += len(ids)
    for item_id, row, length in zip(ids, replies[0::2], replies[1::2], strict=True):
        own_id, score, feed, guid = row
        if not any(row) and not length:
            continue  # gone since
        key = keys.item(item_id)
        place = number(score)
        if not length or place is None:
            # Its guid stays claimed, so the post doesn't come back; timelines let go of it as of any vanished item.
            lacks = "Data" if not length else "score"
            found.add("items", key, f"damaged: no {lacks}", Commands((("DEL", key),)))
            continue
        if own_id is None or own_id.decode() != item_id:
            found.add("items", key, "with another item's ID", Commands((("HSET", key, "ID", item_id),)))
        source = feed.decode() if feed and guid and feed.isdigit() else "0"
        seen.places.note(item_id, place, int(source))


async def _twins(reader: Reader, found: Findings, names: Sequence[str]) -> None:
    replies = await reader.ask([("SMEMBERS", name) for name in names])
    for name, members in zip(names, replies, strict=True):
        for member in members or ():
            parts = member.decode("utf-8", "replace").split(" ")
            if len(parts) != 4 or not parts[0].isdigit():
                found.add("items", name, f"a copy that can't be read: {parts}", Commands((("SREM", name, member),)))


async def _counter(reader: Reader, key: str) -> int:
    """A counter's value; 0 where it can't be read, which is found to be of the wrong type or behind later."""
    if await reader.redis.command("TYPE", key) not in (b"string", "string"):
        return 0
    value = await reader.redis.command("GET", key)
    return int(value) if value is not None and value.isdigit() else 0
