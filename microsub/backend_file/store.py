"""The applied backend.json, its recent changes, and the lease for applying it."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from microsub.configuration.model import Backend, decode, encode
from microsub.redis import keys
from microsub.redis.lease import Lease, first_value
from microsub.redis.protocol import Redis
from microsub.redis.replies import raw_fields, reading, text
from microsub.redis.scripts import load

_BEGUN = "begun"
_WRITING = "writing"


@dataclass(frozen=True, slots=True)
class AppliedFile:
    """A file that is or was applied; `place` is its path on its machine.

    `digest` is the SHA-256 (hex) of its bytes, `edited_at` the Unix time of its last modification. `writing` is the
    `x-version` with which a process began to replace this file, without recording the end.
    """

    backend: Backend
    digest: str
    edited_at: float
    place: str = ""
    writing: str = ""


CHANGES_KEPT = 100
_LONGEST_LINE = 500


class Applied:
    """The applied configuration in Redis."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def last(self) -> AppliedFile | None:
        """The last applied file; None before the first one. Raises StoreDamaged."""
        found = raw_fields(await self._redis.command("HGETALL", keys.applied_config()))
        if not found.keys() - {_BEGUN, _WRITING}:
            return None
        with reading(keys.applied_config()):
            return AppliedFile(
                backend=decode(Backend, orjson.loads(found["document"])),
                digest=text(found["hash"]),
                edited_at=float(found["mtime"]),
                place=text(found.get("place", b"")),
                writing=text(found.get(_WRITING, b"")),
            )

    async def begin(self, base: Backend, file: AppliedFile) -> None:
        """Record that the edit from `base` to `file` is being applied, until `remember` or `end`."""
        edit = {"base": encode(base), "file": encode(file.backend), "hash": file.digest, "mtime": file.edited_at}
        await self._redis.command("HSET", keys.applied_config(), _BEGUN, orjson.dumps(edit))

    async def begun(self) -> tuple[Backend, AppliedFile] | None:
        """Base and file of an unfinished edit, or None. Raises StoreDamaged."""
        note = await self._redis.command("HGET", keys.applied_config(), _BEGUN)
        if note is None:
            return None
        with reading(f"{keys.applied_config()} {_BEGUN}"):
            part = orjson.loads(note)
            file = AppliedFile(decode(Backend, part["file"]), str(part["hash"]), float(part["mtime"]))
            return decode(Backend, part["base"]), file

    async def end(self) -> None:
        """Forget the edit that was being applied."""
        await self._redis.command("HDEL", keys.applied_config(), _BEGUN)

    async def announce(self, token: str) -> None:
        """Record that a file with that `x-version` is being written, until `remember`."""
        await self._redis.command("HSET", keys.applied_config(), _WRITING, token)

    async def remember(self, file: AppliedFile, at: float, *, instead_of: str) -> bool:
        """Record `file` as applied at Unix time `at`; `instead_of` is the previous digest, or ''.

        If another file was recorded in the meantime, or the recorded one was edited later, nothing changes and the
        result is False.
        """
        document = orjson.dumps(encode(file.backend))
        reply = await self._redis.script(
            load("config_applied")(
                applied=keys.applied_config(),
                former=instead_of,
                edited_at=repr(file.edited_at),
                fields=[
                    *("document", document),
                    *("hash", file.digest),
                    *("mtime", repr(file.edited_at)),
                    *("at", repr(at)),
                    *("place", file.place.encode("utf-8", "replace")),
                ],
            )
        )
        return bool(reply == 1)

    # --- recently applied changes

    async def note(self, lines: Sequence[str], at: float) -> None:
        """Record the changes of an edit applied at that Unix time, as text."""
        if lines:
            rows = [orjson.dumps([at, line[:_LONGEST_LINE]]) for line in lines[:CHANGES_KEPT]]
            key = keys.config_changes()
            await self._redis.pipeline([("LPUSH", key, *reversed(rows)), ("LTRIM", key, 0, CHANGES_KEPT - 1)])

    async def changes(self) -> list[tuple[float, str]]:
        """The recently applied changes, the last edit first: each with its Unix time, as written in the log."""
        rows = await self._redis.command("LRANGE", keys.config_changes(), 0, CHANGES_KEPT - 1)
        with reading(keys.config_changes()):
            return [(at, said) for at, said in map(orjson.loads, rows)]

    # --- identity of the data

    async def instance(self) -> str | None:
        """The random name of the data in Redis; None if it was never named, or is lost."""
        name = await self._redis.command("GET", keys.instance())
        return None if name is None else text(name)

    async def name_instance(self) -> str:
        """The random name of the data in Redis, set if missing."""
        return await first_value(self._redis, keys.instance(), lambda: secrets.token_hex(8))

    async def note_address(self, url: str) -> None:
        """Note the public URL of a web process that starts."""
        await self._redis.command("SET", keys.address(), url)

    async def address(self) -> str | None:
        """The public URL of the web process that started last; None if there was none."""
        found: str | None = text(await self._redis.command("GET", keys.address()))
        return found

    # --- the lease

    def lease(self, token: str, seconds: float) -> Lease:
        """The lease for changes, which one process has at a time."""
        return Lease(self._redis, "config", seconds, token)
