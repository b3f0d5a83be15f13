"""What stands in single keys: members, fields and values that nothing of ours has written, whoever put them there.

Each kind of key has a judge here, or in the module that reads its members anyway (`census`, `people`, `channels`,
`feeds`, `schedule`); then the judge here finds what is no text, which no name could take out. What isn't read back at
all (tokens of leases, say) may be anything.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence

from microsub.configuration.store import read_file, unreadable
from microsub.model.moments import number
from microsub.model.reader import NAME
from microsub.store import keys
from microsub.store.check.findings import Call, Commands, Findings, PutAside, Remedy
from microsub.store.check.seen import Reader, is_text
from microsub.store.deadletters import is_sound
from microsub.store.events import read_event
from microsub.store.identity.grants import read_grant
from microsub.store.identity.sessions import read_session
from microsub.store.ids import is_id
from microsub.store.keynames import Kind
from microsub.store.messages import EntriesFound, ItemIncomplete, ItemsStored
from microsub.store.port import Arg, Command
from microsub.store.servicetokens import read_row
from microsub.store.streams import GROUP, Message, message_of

AREA = "contents"
NOTHING = "0"
"""What a guid stands for whose item nobody knows any more, as ids begin at 1."""

_MESSAGES = 50
_AHEAD = 86400.0
"""Seconds that a time of what has happened may lie ahead: clocks differ."""

_HEX = re.compile(rb"[0-9a-f]{64}")
_GRANT = re.compile(rb"[A-Za-z0-9_-]{22}")
_WHOLE = re.compile(rb"[0-9]{1,18}")
_LEFT = re.compile(rb"left [0-9]{1,9}")

Judge = Callable[[bytes, bytes], bool]
"""Whether a member with its score, or a field with its value, is sound; for sets the second is empty."""


def _finite(one: bytes) -> bool:
    value = number(one)
    return value is not None and math.isfinite(value)


def _texts(one: bytes, other: bytes) -> bool:
    return is_text(one) and is_text(other)


def _placed(one: bytes, score: bytes) -> bool:
    return is_text(one) and _finite(score)


def _named(one: bytes, score: bytes) -> bool:
    return is_text(one) and bool(NAME.match(one.decode())) and _finite(score)


def _digest(one: bytes, score: bytes) -> bool:
    return bool(_HEX.fullmatch(one)) and (not score or _finite(score))


def _lease(one: bytes, value: bytes) -> bool:
    return is_text(one) and one != b"" and bool(_WHOLE.fullmatch(value))


def _number_in(*names: bytes) -> Judge:
    """The named fields are numbers, and all is text."""
    return lambda one, value: _texts(one, value) and (one not in names or _finite(value))


def _copied(one: bytes, until: bytes) -> bool:
    try:
        one.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return False
    return _finite(until)


def _unfilled(feed: bytes, value: bytes) -> bool:
    return is_text(feed) and is_id(feed.decode()) and (_finite(value) or bool(_LEFT.fullmatch(value)))


def _shape(one: bytes, value: bytes) -> bool:
    # The times are for `people`: who is disabled must stay so.
    return one in {b"created", b"disabled"} or (
        _texts(one, value) and (one != b"shape" or bool(_WHOLE.fullmatch(value)))
    )


def _sample(one: bytes, value: bytes) -> bool:
    """A metric's sample, named by JSON of its name and labels, and its count."""
    try:
        name, labels = json.loads(one)
    except (ValueError, TypeError):
        return False
    return isinstance(name, str) and isinstance(labels, dict) and _finite(value)


JUDGES: Mapping[str, Judge] = {
    "seen": _named,
    "process_counts": _sample,
    "workers": lambda one, at: is_text(one) and _finite(at),
    "service_tokens": lambda one, row: is_text(one) and bool(NAME.match(one.decode())) and read_row(row) is not None,
    "settings": lambda one, _: is_text(one),
    "feeds_by_url": _texts,
    "feed": _texts,
    "feed_items": _placed,
    "feed_guids": _texts,
    "feed_pending": _texts,
    "feed_tombstones": _placed,
    "feed_copies": _copied,
    "hosts_due": lambda one, at: _placed(one, at) and one != b"",
    "hosts_leases": _lease,
    "host_due": lambda one, _: is_text(one),
    "host": lambda one, value: is_text(one) and _finite(value),
    "user": _shape,
    "token": _number_in(b"checked", b"ends"),
    "tokens": _digest,
    "sessions": _digest,
    "foreign": _digest,
    "foreign_networks": _digest,
    "devices": _digest,
    "grants": lambda one, _: bool(_GRANT.fullmatch(one)),
    "channel": lambda one, value: one == b"name" or _number_in(b"changed")(one, value),
    "channel_feeds": lambda one, _: is_text(one),
    "channel_unfilled": _unfilled,
    "muted": _texts,
    "blocked": _texts,
    "behind": _texts,
    "former_feeds": _texts,
    "imported": lambda one, value: is_text(one) and bool(_WHOLE.fullmatch(value)),
    "credentials": _number_in(b"changed"),
    "passkeys": lambda one, _: is_text(one),
    "handles": _texts,
    "attempts": lambda one, value: is_text(one) and _finite(value),
    "foreign_checks": lambda one, value: is_text(one) and bool(_WHOLE.fullmatch(value)),
    "code": _number_in(b"expires", b"used"),
}
"""By the kind of key (the function's name in `store.keys`)."""

NEEDED: Mapping[str, frozenset[bytes]] = {
    "token": frozenset({b"scope", b"checked", b"ends", b"foreign", b"grant"}),
    "code": frozenset({b"client", b"redirect", b"scope", b"challenge", b"seed", b"expires", b"used"}),
}
"""Fields without which the rest would mean something else: then the whole key goes."""


def _session(fields: Mapping[bytes, bytes]) -> bool:
    return read_session([part for pair in fields.items() for part in pair]) is not None


def _grant(fields: Mapping[bytes, bytes]) -> bool:
    try:
        texts = {name.decode(): value.decode() for name, value in fields.items()}
        read_grant("", "", texts)
    except (KeyError, ValueError):
        return False
    return {"refresh", "seed"} <= texts.keys()


def _applied(fields: Mapping[bytes, bytes]) -> bool:
    texts = {name.decode("utf-8", "replace"): value for name, value in fields.items()}
    # By its hash alone the file is known again by who has it: that is what a repair leaves of a spoilt record.
    document = texts.get("document", b"{}")
    return all(map(is_text, fields)) and _is_hash(fields) and read_file(texts | {"document": document}) is not None


def _is_hash(fields: Mapping[bytes, bytes]) -> bool:
    return bool(_HEX.fullmatch(fields.get(b"hash", b"")))


def _keep_hash(key: str, fields: Mapping[bytes, bytes]) -> Remedy:
    """Leave of the record what is known for sure. Without a hash, nothing is: then it goes."""
    if not _is_hash(fields):
        return PutAside(key)
    others = tuple(name for name in fields if name != b"hash")
    known = unreadable({name.decode("utf-8", "replace"): value for name, value in fields.items()})
    values = ("HSET", key, "mtime", repr(known.edited_at), "at", repr(known.at))
    return Commands((("HDEL", key, *others), values) if others else (values,))


RECORDS: Mapping[str, Callable[[Mapping[bytes, bytes]], bool]] = {
    "session": _session,
    "grant": _grant,
    "applied_config": _applied,
}
"""Hashes that are read as a whole."""

STRINGS: Mapping[str, tuple[Callable[[bytes], bool], Callable[[str], Command]]] = {
    # Without a count, the next message begins a new one.
    "stream_bytes": (lambda value: bool(_WHOLE.fullmatch(value)), lambda key: ("DEL", key)),
    "stream_left_out": (is_text, lambda key: ("SET", key, "again")),
    "requests": (lambda value: bool(_WHOLE.fullmatch(value)), lambda key: ("DEL", key)),
    # What is taken back after the minute has gone is below zero.
    "in_minute": (lambda value: bool(_WHOLE.fullmatch(value.removeprefix(b"-"))), lambda key: ("DEL", key)),
    "follows": (lambda value: bool(_WHOLE.fullmatch(value)), lambda key: ("DEL", key)),
    "foreign_owner": (lambda value: is_text(value) and bool(NAME.match(value.decode())), lambda key: ("DEL", key)),
}
"""Strings that are read back, and the command that mends one."""

_READERS: Mapping[str, Callable[[Mapping[str, bytes]], object]] = {
    "entries": EntriesFound.of,
    "stored": ItemsStored.of,
    "incomplete": ItemIncomplete.of,
}

_WALKS = {"set": ("SSCAN", "SREM"), "zset": ("ZSCAN", "ZREM"), "hash": ("HSCAN", "HDEL")}

Named = tuple[str, Kind, Mapping[str, str]]


async def examine(reader: Reader, found: Findings, named: Sequence[Named], now: float) -> None:
    """Look into these keys, whose types are right."""
    for type_, (walk, take_out) in _WALKS.items():
        wanted = [(key, kind.name) for key, kind, _ in named if kind.type == type_ and _is_judged(kind.name)]
        contents = await reader.walk(walk, [key for key, _ in wanted])
        for key, kind in wanted:
            flat = contents[key]
            if type_ == "set":
                flat = [part for member in flat for part in (member, b"")]
            _one(found, key, kind, flat, take_out, now)
    strings = [(key, kind.name) for key, kind, _ in named if kind.name in STRINGS]
    for (key, kind), value in zip(strings, await reader.ask([("GET", key) for key, _ in strings]), strict=True):
        can_be_read, mend = STRINGS[kind]
        if value is not None and not can_be_read(value):
            found.add(AREA, key, "can't be read", Commands((mend(key),)))
    for key, kind_, values in named:
        if kind_.name in {"stream", "events_stream"}:
            await _stream(reader, found, key, values.get("name", ""))


def _is_judged(kind: str) -> bool:
    return kind in JUDGES or kind in RECORDS


def _one(found: Findings, key: str, kind: str, flat: Sequence[bytes], take_out: str, now: float) -> None:
    """Members and scores of one key, or fields and values."""
    pairs = list(zip(flat[0::2], flat[1::2], strict=True))
    if kind in RECORDS:
        if pairs and not RECORDS[kind](dict(pairs)):
            remedy: Remedy = Commands((("DEL", key),))
            if kind == "applied_config":
                remedy = _keep_hash(key, dict(pairs))
            found.add(AREA, key, "a record that can't be read", remedy)
        return
    judge = JUDGES[kind]
    for member, other in pairs:
        is_late = kind == "workers" and (number(other) or 0.0) > now + _AHEAD
        if judge(member, other) and not is_late:
            continue
        command: Command = (take_out, key, member)
        if member in NEEDED.get(kind, ()):
            command = ("DEL", key)
        elif kind == "hosts_leases" and member == b"*":
            # The next token must be larger than any that was given out; the time is.
            command = ("HSET", key, member, int(now))
        elif kind == "feed_guids" and is_text(member):
            # The guid itself is sound, and what it stood for shall not come back.
            command = ("HSET", key, member, NOTHING)
        what = "nothing that was ever written there" if is_text(member) else "no text"
        found.add(AREA, f"{key} {_shown(member)}", what, Commands((command,)))


def marks(found: Findings, key: str, flat: Sequence[bytes]) -> None:
    """Look into one set of a timeline, of which there are many, and large ones: `channels` has it at hand."""
    for member, score in zip(flat[0::2], flat[1::2], strict=True):
        if not (member.isdigit() and score[:1].isdigit()) and not _placed(member, score):
            what = "at no place" if is_text(member) else "no text"
            found.add(AREA, f"{key} {_shown(member)}", what, Commands((("ZREM", key, member),)))


def _shown(member: bytes) -> str:
    text = member.decode("utf-8", "backslashreplace")[:200]
    return text if text.isprintable() and text else repr(text)


async def _stream(reader: Reader, found: Findings, key: str, name: str) -> None:
    """The messages of one stream. What stages can't read goes to the dead letters too, once a worker has tried."""
    start = "-"
    while rows := (await reader.ask([("XRANGE", key, start, "+", "COUNT", _MESSAGES)]))[0]:
        for row in rows:
            if not _is_message(name, row):
                message = message_of(row)
                args: list[Arg] = [GROUP, message.id, message.size]
                remedy: Remedy = Commands((("XDEL", key, message.id),))
                if name:
                    remedy = Call("stream_done", (key, keys.stream_bytes(name)), tuple(args))
                found.add(AREA, f"{key} {message.id}", "a message that can't be read", remedy)
        start = f"({rows[-1][0].decode()}"


def _is_message(name: str, row: Sequence[bytes]) -> bool:
    if not name:
        return read_event(row) is not None
    message: Message = message_of(row)
    if name == "dead":
        return is_sound(message)
    if name not in _READERS:
        return True
    try:
        _READERS[name](message.fields)
    except (ValueError, KeyError, TypeError, AttributeError):
        return False
    return True
