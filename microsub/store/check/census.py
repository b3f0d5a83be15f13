"""Every key once: whether `store.keys` names it, its type, its time to live; and every item."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import orjson

from microsub.model.moments import number
from microsub.store import keys, twins
from microsub.store.check import contents, idcounters
from microsub.store.check.findings import Commands, Findings, PutAside
from microsub.store.check.seen import Reader, Seen, batched, is_text
from microsub.store.ids import is_id
from microsub.store.keynames import Kind, kind_of, looks_like_ours
from microsub.store.port import Command

AREA = "keys"
_LIVES = {"twins": twins.LIFETIME}
_ALL = 10**18
_OTHER_LIFE = 48 * 3600
_NUMBERS = (b"updated", b"discovered", b"twin_at", b"condemned")
_ITEMS_AT_ONCE = 250

Named = tuple[str, Kind, Mapping[str, str]]


async def examine(reader: Reader, seen: Seen, found: Findings) -> None:
    """Walk over all keys; what they are is noted in `seen`."""
    counted = await idcounters.begin(reader, seen)
    seen.begun_at_item = counted if idcounters.is_sound(counted) else _ALL  # while it is spoilt, nothing new comes
    judged_to = counted if idcounters.is_sound(counted) else 0
    async for batch in reader.redis.scan():
        named = await _sound(reader, seen, found, sorted(set(batch)))
        await contents.examine(reader, found, named, seen.now)
        items = []
        for _, kind, values in named:
            _note(seen, kind, values)
            if kind.name == "item":
                items.append(values["item_id"])
            elif kind.name == "feed":
                seen.counters.feeds.see(values["feed_id"])
        # Another server's items may lie here too, under names in hexadecimal, some of which look like large ids.
        later = [one for one in items if int(one) > judged_to]
        placed = await reader.ask([("HEXISTS", keys.item(one), "score") for one in later])
        ours = [one for one, is_ours in zip(later, placed, strict=True) if is_ours]
        found.examined["items of others"] += len(later) - len(ours)
        for item_id in ours:
            seen.counters.items.see(item_id)
        sound = [one for one in items if int(one) <= judged_to]
        await _items(reader, seen, found, sound if idcounters.is_sound(counted) else ours)
        await _twins(reader, found, [key for key, kind, _ in named if kind.name == "twins"])


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
            found.examined["keys not looked into, as their type is wrong"] += 1
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
    found.examined["items"] += len(ids)
    for batch in batched(ids, _ITEMS_AT_ONCE):
        rows = await reader.ask([("HGETALL", keys.item(item_id)) for item_id in batch])
        for item_id, flat in zip(batch, rows, strict=True):
            if flat:  # else gone since
                _item(seen, found, item_id, dict(zip(flat[0::2], flat[1::2], strict=True)))


def _item(seen: Seen, found: Findings, item_id: str, fields: Mapping[bytes, bytes]) -> None:
    key, place = keys.item(item_id), number(fields.get(b"score"))
    has_data = _is_object(fields.get(b"Data", b""))
    if not has_data or place is None:
        # Its guid stays claimed, so the post doesn't come back; timelines let go of it as of any vanished item.
        lacks = "score" if has_data else "Data"
        found.add("items", key, f"damaged: no {lacks}", Commands((("DEL", key),)))
        return
    if fields.get(b"ID", b"").decode("utf-8", "replace") != item_id:
        found.add("items", key, "with another item's ID", Commands((("HSET", key, "ID", item_id),)))
    broken = [name for name, value in fields.items() if not is_text(name) or (not is_text(value) and name != b"Data")]
    broken += [name for name in _NUMBERS if name in fields and number(fields[name]) is None]
    if broken:
        # Where the last edit stood, now stands what is known of the post's time.
        commands: list[Command] = [("HDEL", key, *dict.fromkeys(broken))]
        commands += [("HSET", key, "updated", repr(place))] if b"updated" in broken else []
        names = ", ".join(sorted(name.decode("utf-8", "backslashreplace") for name in set(broken)))
        found.add("items", key, f"fields that can't be read: {names}", Commands(tuple(commands)))
    feed, guid = (fields.get(name, b"").decode("utf-8", "replace") for name in (b"feed", b"guid"))
    seen.places.note(item_id, place, int(feed) if feed and guid and is_id(feed) else 0)


def _is_object(data: bytes) -> bool:
    """Whether pages can be made of it: they are put together without reading it."""
    try:
        return data[:1] == b"{" and len(data) > 2 and isinstance(orjson.loads(data), dict)
    except ValueError:
        return False


async def _twins(reader: Reader, found: Findings, names: Sequence[str]) -> None:
    replies = await reader.ask([("SMEMBERS", name) for name in names])
    for name, members in zip(names, replies, strict=True):
        for member in members or ():
            parts = member.decode("utf-8", "replace").split(" ")
            if len(parts) != 4 or not is_id(parts[0]):
                found.add("items", name, f"a copy that can't be read: {parts}", Commands((("SREM", name, member),)))
