"""What was last applied from backend.json, who may apply now, and the settings that are in force everywhere.

Processes on other machines have no backend.json: they read the settings from here.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

import orjson

from microsub.configuration.model import Backend, InstanceSettings, UserSettings, decode, encode
from microsub.redis import keys
from microsub.redis.lease import Lease
from microsub.redis.protocol import Redis
from microsub.redis.replies import raw_fields, reading, text
from microsub.redis.scripts import load

_BEGUN = "begun"
_INSTANCE = "instance"
_USER = "user:"


@dataclass(frozen=True, slots=True)
class AppliedFile:
    """The file that was last applied. `digest` is the SHA-256 (hex) of its bytes, `edited_at` the time of its last
    modification and `at` that of applying it, in Unix seconds; `place` is the machine's own path of it.
    """

    backend: Backend
    digest: str
    edited_at: float
    at: float
    place: str = ""


@dataclass(frozen=True, slots=True)
class Begun:
    """An edit that a process has begun to apply: from `base` to `file`, whose SHA-256 (hex) is `digest` and which was
    last modified at `edited_at` (Unix seconds).
    """

    base: Backend
    file: Backend
    digest: str
    edited_at: float


@dataclass(frozen=True, slots=True)
class InForce:
    """Settings of the instance, and those of users by name."""

    instance: InstanceSettings = field(default_factory=InstanceSettings)
    users: Mapping[str, UserSettings] = field(default_factory=dict)


class Applied:
    """The applied configuration in Redis."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def last(self) -> AppliedFile | None:
        """What was last applied; None before the first time. Raises StoreDamaged."""
        found = raw_fields(await self._redis.command("HGETALL", keys.applied_config()))
        if not found.keys() - {_BEGUN}:
            return None
        with reading(keys.applied_config()):
            return AppliedFile(
                backend=decode(Backend, orjson.loads(found["document"])),
                digest=text(found["hash"]),
                edited_at=float(found["mtime"]),
                at=float(found["at"]),
                place=text(found.get("place", b"")),
            )

    async def begin(self, edit: Begun) -> None:
        """Note that the edit is being applied, until `remember` or `end`."""
        base, file = encode(edit.base), encode(edit.file)
        note = orjson.dumps({"base": base, "file": file, "hash": edit.digest, "mtime": edit.edited_at})
        await self._redis.command("HSET", keys.applied_config(), _BEGUN, note)

    async def begun(self) -> Begun | None:
        """The edit that was begun and not ended; None where there is none. Raises StoreDamaged."""
        note = await self._redis.command("HGET", keys.applied_config(), _BEGUN)
        if note is None:
            return None
        with reading(f"{keys.applied_config()} {_BEGUN}"):
            part = orjson.loads(note)
            base, file = decode(Backend, part["base"]), decode(Backend, part["file"])
            return Begun(base, file, str(part["hash"]), float(part["mtime"]))

    async def end(self) -> None:
        """Forget what was begun."""
        await self._redis.command("HDEL", keys.applied_config(), _BEGUN)

    async def remember(self, file: AppliedFile, *, instead_of: str) -> bool:
        """Remember `file` in place of the one whose digest is `instead_of` ('' for none), its edit being complete.

        False, and nothing changes, when another one is remembered meanwhile or the remembered one was edited later.
        """
        document = orjson.dumps(encode(file.backend))
        reply = await self._redis.script(
            load("config_applied"),
            [keys.applied_config()],
            [
                instead_of,
                repr(file.edited_at),
                *("document", document),
                *("hash", file.digest),
                *("mtime", repr(file.edited_at)),
                *("at", repr(file.at)),
                *("place", file.place.encode("utf-8", "replace")),
            ],
        )
        return bool(reply == 1)

    # --- which data this is

    async def instance(self) -> str | None:
        """The random name of the data in Redis; None where it has none (any more)."""
        name = await self._redis.command("GET", keys.instance())
        return None if name is None else text(name)

    async def name_instance(self) -> str:
        """The same; data without a name is given one."""
        await self._redis.command("SET", keys.instance(), secrets.token_hex(8), "NX")
        return await self.instance() or ""

    # --- the lease

    async def take(self, token: str, seconds: float) -> bool:
        """Take the lease for that long; False when another process has it."""
        return await Lease(self._redis, "config", seconds, token).acquire()

    async def keep(self, token: str, seconds: float) -> bool:
        """Extend the lease; False when it has passed to somebody else."""
        return await Lease(self._redis, "config", seconds, token).renew()

    async def give_back(self, token: str) -> None:
        """End the lease, if it is still ours."""
        await Lease(self._redis, "config", 0, token).release()

    # --- the settings in force

    async def in_force(self) -> InForce:
        """All settings, in one round trip. Raises StoreDamaged where one can't be read: with the default in its place,
        cleanup might take what was to be kept.
        """
        found = raw_fields(await self._redis.command("HGETALL", keys.settings()))
        users = {}
        for name, value in found.items():
            if name.startswith(_USER):
                with reading(f"{keys.settings()} {name}"):
                    users[name.removeprefix(_USER)] = decode(UserSettings, orjson.loads(value))
        with reading(f"{keys.settings()} {_INSTANCE}"):
            return InForce(decode(InstanceSettings, orjson.loads(found.get(_INSTANCE, b"{}"))), users)

    async def set_instance(self, settings: InstanceSettings) -> None:
        """Put the instance's settings in force."""
        await self._redis.command("HSET", keys.settings(), _INSTANCE, orjson.dumps(encode(settings)))

    async def set_user(self, user: str, settings: UserSettings) -> None:
        """Put the settings of a user in force."""
        if settings == UserSettings():
            await self._redis.command("HDEL", keys.settings(), _USER + user)
        else:
            await self._redis.command("HSET", keys.settings(), _USER + user, orjson.dumps(encode(settings)))
