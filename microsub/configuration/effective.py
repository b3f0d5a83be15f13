"""The settings that backend.json declares, in Redis, and the effective ones.

Processes on other machines have no backend.json, so they read the settings from here. Every page and every delivery
needs the settings of a channel (its own, then its user's, the instance's, the defaults). So answers are cached for
seconds; an edit of backend.json reaches every process within that time.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

import orjson
import structlog

from microsub.base.errors import ConfigError, NotFound, StoreDamaged, StoreUnavailable
from microsub.base.ttl_cache import TtlCache
from microsub.configuration.model import InstanceSettings, Quotas, UserSettings, decode, encode
from microsub.model.reader import SAVED
from microsub.model.settings import USUAL, ChannelSettings, OwnChannelSettings, UnreadStyle
from microsub.redis import keys
from microsub.redis.protocol import Redis
from microsub.redis.replies import reading
from microsub.redis.structures import Hash

_INSTANCE, _LOOKS = "instance", "looks"
_USER, _QUOTAS = "user:", "quotas:"
_NOTHING_SET = UserSettings()


@dataclass(frozen=True, slots=True)
class AllSettings:
    """The settings of the instance, and of users by name.

    An admin chose `looks` (`name` and `color`) and `quotas` (of users by name) on pages; what backend.json declares is
    stronger.
    """

    instance: InstanceSettings = field(default_factory=InstanceSettings)
    users: Mapping[str, UserSettings] = field(default_factory=dict)
    looks: Mapping[str, str] = field(default_factory=dict)
    quotas: Mapping[str, Quotas] = field(default_factory=dict)

    def of_user(self, name: str) -> UserSettings:
        """The settings that a user has of their own."""
        return self.users.get(name, _NOTHING_SET)


@dataclass(frozen=True, slots=True)
class Status:
    """The state of backend.json; `lost` while Redis has lost its data and the file isn't applied again."""

    problems: tuple[ConfigError, ...] = ()
    lost: bool = False


class DeclaredSettings:
    """The settings of the instance and of users, in Redis."""

    def __init__(self, redis: Redis) -> None:
        self._stored = Hash(redis, keys.settings())

    async def everything(self) -> AllSettings:
        """All settings, in one round trip. Raises StoreDamaged if one can't be read.

        Falling back to a default isn't safe: cleanup could then remove posts that must be kept.
        """
        found = await self._stored.all()
        users, quotas = {}, {}
        for name, value in found.items():
            with reading(f"{keys.settings()} {name}"):
                if name.startswith(_USER):
                    users[name.removeprefix(_USER)] = decode(UserSettings, orjson.loads(value))
                elif name.startswith(_QUOTAS):
                    quotas[name.removeprefix(_QUOTAS)] = decode(Quotas, orjson.loads(value))
        with reading(f"{keys.settings()} {_INSTANCE}"):
            instance = decode(InstanceSettings, orjson.loads(found.get(_INSTANCE, b"{}")))
            return AllSettings(instance, users, orjson.loads(found.get(_LOOKS, b"{}")), quotas)

    async def set_instance(self, settings: InstanceSettings) -> None:
        """Store the instance's settings."""
        await self._stored.set({_INSTANCE: orjson.dumps(encode(settings))})

    async def set_looks(self, looks: Mapping[str, str]) -> None:
        """Store `name` and `color` of the instance, as an admin chose them on a page."""
        await self._stored.set({_LOOKS: orjson.dumps(looks)})

    async def set_user(self, user: str, settings: UserSettings) -> None:
        """Store the settings of a user."""
        await self._set(_USER + user, settings)

    async def set_quotas(self, user: str, quotas: Quotas) -> None:
        """Store the quotas of a user, as an admin chose them on a page."""
        await self._set(_QUOTAS + user, quotas)

    async def _set(self, name: str, settings: UserSettings | Quotas) -> None:
        if settings == type(settings)():
            await self._stored.delete(name)
        else:
            await self._stored.set({name: orjson.dumps(encode(settings))})


log = structlog.get_logger(__name__)

REMEMBERED = 1.0
"""Seconds for which an answer is cached."""
_MOST_CHANNELS = 10_000


class EffectiveSettings:
    """The effective settings. `own` gives a channel's, or raises NotFound; `clock` is monotonic."""

    def __init__(
        self,
        settings: DeclaredSettings,
        own: Callable[[str, str], Awaitable[OwnChannelSettings]],
        *,
        remembered: float = REMEMBERED,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._own_of = own
        self._all: TtlCache[AllSettings] = TtlCache(lifetime=remembered, failures=0, most=1, clock=clock)
        self._own: TtlCache[OwnChannelSettings] = TtlCache(
            lifetime=remembered, failures=0, most=_MOST_CHANNELS, clock=clock
        )
        self._last: AllSettings | None = None
        self._damage: str | None = None
        self._of_users: tuple[AllSettings, Callable[[str], ChannelSettings]] | None = None

    async def everything(self) -> AllSettings:
        """All settings, including those of users."""
        return await self._all.get("", self._read)

    async def instance(self) -> InstanceSettings:
        """The instance's settings."""
        return (await self.everything()).instance

    async def of(self, user: str, uid: str) -> ChannelSettings:
        """The settings of one channel, without None; an unknown channel has its user's.

        In `saved`, items stay until the user removes them, whatever the settings say.
        """

        async def find() -> OwnChannelSettings:
            try:
                return await self._own_of(user, uid)
            except NotFound:
                return OwnChannelSettings()

        everywhere = await self.everything()
        own = await self._own.get(f"{user}/{uid}", find)
        above = everywhere.of_user(user).over(everywhere.instance).over(USUAL)
        kept = ChannelSettings(keep_read_days=0, keep_unread_days=0, max_items=0) if uid == SAVED else own.limits()
        return kept.over(above)

    async def of_users(self) -> Callable[[str], ChannelSettings]:
        """User → the settings of their channels without own settings; no value is None."""
        everywhere = await self.everything()
        if self._of_users is None or self._of_users[0] is not everywhere:
            common = everywhere.instance.limits().over(USUAL)
            special = {user: own.limits().over(common) for user, own in everywhere.users.items()}
            self._of_users = everywhere, lambda user: special.get(user, common)
        return self._of_users[1]

    async def unread_style(self, user: str) -> UnreadStyle:
        """The style of unread counts in this user's channels without own settings."""
        everywhere = await self.everything()
        return everywhere.of_user(user).unread or everywhere.instance.unread or "count"

    def forget(self) -> None:
        """Drop cached answers, because this process changed something."""
        self._all.forget()
        self._own.forget()

    async def _read(self) -> AllSettings:
        try:
            self._last = await self._settings.everything()
        except StoreUnavailable:
            if self._last is None:
                raise
            # Their master of a cluster may be away, and a reader's own may not. Until it is back they can't change.
        except StoreDamaged as error:
            if self._last is None:
                raise
            # Corrupt settings don't replace the last valid ones.
            if self._damage != error.key:
                log.warning("can't read the settings; the previous ones stay in force", error=str(error))
            self._damage = error.key
        else:
            self._damage = None
        return self._last
