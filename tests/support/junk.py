"""Junk for every kind of key, as a hand with redis-cli might leave it there."""

from __future__ import annotations

from collections.abc import Callable

from microsub.store import identitykeys, keys
from microsub.store.keynames import Kind
from microsub.store.port import Command, Redis

HEX = "ab" * 32
VALUES = {"name": "ann", "uid": "home", "feed_id": "1", "item_id": "7", "digest": HEX, "host_name": "a.example"}
OTHERS = {
    "identity": "twin a.example 1", "tag": "x", "key": "x", "part": "sweep", "session": "s", "grant_id": "g" * 22,
    "minute": "1", "day": "1", "feed": "1",
}  # fmt: skip

ANYTHING = {
    "migration_lease", "config_lease", "saving_lease", "sweep_lease", "upkeep", "feed_copy_lock", "foreign_lease",
    "instance",  # compared, byte by byte
    "probe", "confirmed",  # only whether they are there, or are the same, is asked
    "worker", "events",  # nobody reads these
    "aside",  # that is where junk is put
    "feed_edition",  # compared, byte by byte
    "feed_marks", "feed_copy",  # what can't be read counts as absent
    "invitation",  # compared with a digest
    "ceremony", "sign_in", "foreign_refused",  # good once, or for seconds
}  # fmt: skip
"""Kinds of keys whose content may be anything: what depends on it."""

ANY_TEXT = {
    "applied_config", "attempts", "code", "feed", "feed_copies", "feed_guids", "feed_tombstones", "handles",
    "former_feeds", "hosts_due", "imported", "item", "settings", "token", "user", "workers", "channel", "credentials",
    "foreign_checks",
}  # fmt: skip
"""Kinds in which any text may be a member, or a field beside those that are read."""

NAMES = {"channels", "removed_channels", "users", "seen"}
"""Kinds whose members are names, as some of the odd ones could be."""

ELSEWHERE = {"schema"}
"""No command begins with it spoilt, and each says why."""

BINARY = b"\xff\xfe\x00"
MEMBERS = (BINARY, b"x y", b"", b"-5", "²".encode(), b"007", b"9" * 30)
How = Callable[[Kind, str], list[Command]]
VALUE = {"binary": BINARY, "broken JSON": b"{", "text": b"x y."}


def key_of(kind: Kind) -> str:
    """A key of that kind, where the store has one, one that it has."""
    for module in (keys, identitykeys):
        function = getattr(module, kind.name, None)
        if function is not None:
            names = function.__code__.co_varnames[: function.__code__.co_argcount]
            known = {**VALUES, **OTHERS, **({"name": "entries"} if kind.name.startswith("stream") else {})}
            known |= {"name": "w"} if kind.name == "worker" else {}
            found: str = function(*(known[name] for name in names))
            return found
    raise AssertionError(kind.name)


def junk(kind: Kind, flavour: str) -> list[Command]:
    """What a hand does to it."""
    key, value = key_of(kind), VALUE[flavour]
    match kind.type:
        case "string" | None:
            commands: list[Command] = [("SET", key, value)]
        case "set":
            commands = [("SADD", key, *MEMBERS)]
        case "zset":
            commands = [("ZADD", key, *(part for one in MEMBERS for part in (5, one)))]
            commands.append(("ZADD", key, "inf", b"inf"))
        case "hash":
            commands = [("HSET", key, *(part for one in MEMBERS for part in (one, value)))]
        case "stream":
            commands = [("XADD", key, "*", one or b"e", value) for one in MEMBERS]
        case other:
            raise AssertionError(other)
    return commands if kind.may_stay else [*commands, ("EXPIRE", key, 1000)]


def spoil(kind: Kind, flavour: str) -> list[Command]:
    """What a hand does to the fields of a hash that are there; others of its kind of key are as `junk` has them."""
    return [("HSPOIL", key_of(kind), VALUE[flavour])] if kind.type == "hash" else junk(kind, flavour)


async def apply(redis: Redis, commands: list[Command]) -> None:
    for name, *args in commands:
        if name == "HSPOIL":
            for field in await redis.command("HKEYS", args[0]):
                await redis.command("HSET", args[0], field, args[1])
        else:
            await redis.command(name, *args)
