"""Devices: browsers with a session that show notifications of new posts, and the progress of each.

A device belongs to a session and ends with it. The browser chooses its push service, whose address for this device is a
secret.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import orjson

from microsub import webpush  # encryption is slow to load
from microsub.accounts import write_record
from microsub.base.errors import InvalidRequest, NotFound, QuotaReached, TooManyRequests, Unauthorized
from microsub.base.rate_limits import RateLimit, RateLimiter
from microsub.base.texts import N_
from microsub.base.urls import web_parts
from microsub.redis import keys
from microsub.redis.lease import first_value
from microsub.redis.protocol import Redis
from microsub.redis.replies import reading
from microsub.redis.structures import Hash, Scores, together
from microsub.work import calendar_of

MOST_DEVICES = 10
"""Maximum number of devices of a user. Each gets at most one message in five minutes."""
TESTS_OF_USER = RateLimit("test messages to devices", "user", 6)
DEVICES_OF_USER = RateLimit("devices that begin to hear", "user", 30, 3600)
"""A newly added device gets its first message without a pause."""

DUE = "devices"
LONGEST_ADDRESS = 2048
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True)
class Device:
    """A browser that gets notifications for these channels. `id` is that of its session, `since` Unix time.

    `public` and `secret` are its encryption keys, as browsers encode them.
    """

    id: str
    name: str
    address: str = field(repr=False)
    public: str
    secret: str = field(repr=False)
    channels: Sequence[str]
    language: str
    since: float


@dataclass(frozen=True, slots=True)
class DeviceState:
    """A device's progress, by places of `sync.arrivals`: announced up to `place`; the next message counts from `base`.

    `sent` is the Unix time of the last accepted message; `failures` counts refused messages in a row, `error` is the
    last reason.
    """

    place: int
    base: int
    sent: float = 0.0
    failures: int = 0
    error: str = ""


class Devices:
    """The devices of all users, and this server's key. Belongs to one event loop."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._devices = Hash.at(redis, keys.devices_told)
        self._states = Hash.at(redis, keys.device_states)
        self._limiter = RateLimiter()
        self._due = calendar_of(redis, DUE)

    async def key(self) -> webpush.ServerKey:
        """This server's key, created when it is first needed; not cached, since the store may be replaced."""
        return webpush.ServerKey.of(await first_value(self._redis, keys.push_key(), webpush.ServerKey.new_text))

    async def all(self, user: str) -> list[tuple[Device, DeviceState | None]]:
        """The user's devices, newest first, with their progress; None: not looked at yet."""
        told, states = await together(self._devices(user).all(), self._states(user).all())
        found = [(_device(said), _state(states.get(id_))) for id_, said in told.items()]
        return sorted(found, key=lambda one: -one[0].since)

    async def put(self, user: str, device: Device) -> None:
        """Register the device for posts that arrive from now on; it replaces the device of the same session.

        Raises InvalidRequest, QuotaReached, TooManyRequests, Unauthorized.
        """
        _check_address(device.address)
        webpush.browser_keys(device.public, device.secret)
        if not self._limiter.count(DEVICES_OF_USER, user):
            raise TooManyRequests(N_("Notifications were turned on too often. Try again in an hour."), 3600)
        await self._states(user).delete(device.id)
        if not await self._write(user, device):
            raise QuotaReached("devices", MOST_DEVICES, MOST_DEVICES)
        await self._due.note({f"{user} {device.id}": device.since})

    async def choose(self, user: str, id_: str, channels: Sequence[str], language: str) -> None:
        """Change the device's channels and language. Raises NotFound."""
        said = await self._devices(user).get(id_)
        if said is None:
            raise NotFound(N_("Notifications are not on for this device."))
        await self._write(user, replace(_device(said), channels=channels, language=language))

    async def remove(self, user: str, ids: Collection[str]) -> None:
        """Remove these devices."""
        tests = [f"test {id_}" for id_ in ids]
        await together(self._devices(user).delete(*ids), self._states(user).delete(*ids, *tests))

    async def ask_test(self, user: str, id_: str, now: float) -> None:
        """Request a test message, which is sent within seconds. Raises NotFound, TooManyRequests."""
        if not await self._devices(user).has(id_):
            raise NotFound(N_("Notifications are not on for this device."))
        if not self._limiter.count(TESTS_OF_USER, user):
            raise TooManyRequests(N_("Too many test messages. Try again in a minute."), 60)
        await self._states(user).set({f"test {id_}": 1})
        await self._due.note({f"{user} {id_}": now})

    async def look(self, user: str, id_: str) -> tuple[Device, DeviceState | None, int, bool] | None:
        """The device, its progress, the latest place in its user's order of arrival, and whether a test is asked.

        Deletes the remaining data of a removed device. One round trip.
        """
        states = self._states(user).get_many((id_, f"test {id_}"))
        newest = Scores(self._redis, keys.arrivals(user)).last()
        said, (state, test), place = await together(self._devices(user).get(id_), states, newest)
        if said is None:
            await self.remove(user, [id_])
            return None
        return _device(said), _state(state), int(place or 0), test is not None

    async def note(self, user: str, id_: str, state: DeviceState) -> None:
        """Store the device's progress."""
        await self._states(user).set({id_: orjson.dumps(asdict(state))})

    async def forget_test(self, user: str, id_: str) -> None:
        """Clear the request for a test message, because it was sent."""
        await self._states(user).delete(f"test {id_}")

    async def _write(self, user: str, device: Device) -> bool:
        """Write a device; False if there are too many. Raises Unauthorized for a user who is gone or disabled."""
        devices, fields = self._devices(user), {device.id: orjson.dumps(asdict(device))}
        done = await write_record(self._redis, user, devices.key, fields, most=MOST_DEVICES)
        if done == _IS_THERE or (done == _FULL and await devices.has(device.id)):
            done = await write_record(self._redis, user, devices.key, fields)
        if not done:
            raise Unauthorized(f"the user '{user}' doesn't exist, or is disabled")
        return done != _FULL


_FULL, _IS_THERE = -2, -3
"""Replies of the script."""


def _check_address(address: str) -> None:
    """Raise InvalidRequest for an address that no push service uses."""
    parts = web_parts(address) if len(address) <= LONGEST_ADDRESS and address.isascii() else None
    is_near = parts is not None and parts.hostname in _LOOPBACK  # the guard refuses it unless the admin lists it
    if parts is None or "@" in parts.netloc or (parts.scheme != "https" and not is_near):
        raise InvalidRequest(N_("Your browser sent no valid address for notifications."))


def _device(said: bytes) -> Device:
    return Device(**_read(said))


def _state(said: bytes | None) -> DeviceState | None:
    return None if said is None else DeviceState(**_read(said))


def _read(said: bytes) -> dict[str, Any]:
    with reading("devices told"):
        found: dict[str, Any] = orjson.loads(said)
        return found
