"""Which slot of a Redis Cluster a command goes to, and whether it writes.

https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/ (Key distribution model, Hash tags). Pure.
"""

from __future__ import annotations

from binascii import crc_hqx

from microsub.redis.protocol import Arg, Command

SLOTS = 16384

_KEYLESS: tuple[Arg, ...] = (
    *("CLIENT", "CLUSTER", "COMMAND", "CONFIG", "DBSIZE", "ECHO", "FLUSHALL", "FLUSHDB", "INFO", "KEYS", "PING"),
    *("PUBLISH", "RANDOMKEY", "ROLE", "SCAN", "SCRIPT", "TIME", "WAIT"),
)
# Where the first key stands; 0 where there is none, so that any server may answer. All others have it first.
_PLACES: dict[Arg, int] = dict.fromkeys(_KEYLESS, 0) | {
    "EVAL": 3,
    "EVALSHA": 3,
    "XGROUP": 2,
    "XINFO": 2,
    "OBJECT": 2,
    "MEMORY": 2,
    "XREAD": -1,
    "XREADGROUP": -1,
}


def slot_of(key: Arg) -> int:
    """The slot of a key: CRC16 (XMODEM) of its hash tag, or of all of it."""
    raw = key if isinstance(key, bytes) else str(key).encode()
    start = raw.find(b"{")
    if start >= 0:
        end = raw.find(b"}", start + 1)
        if end > start + 1:
            raw = raw[start + 1 : end]
    return crc_hqx(raw, 0) % SLOTS


def key_of(command: Command) -> Arg | None:
    """The key that decides where the command runs; None where any server will do. Names are in upper case."""
    place = _PLACES.get(command[0], 1)
    if place == 1:
        return command[1]
    if place == 0 or (place == 3 and not int(command[2])):
        return None
    if place == -1:
        place = command.index("STREAMS") + 1
    return command[place]
