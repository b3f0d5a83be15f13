"""What has to do with people's identity: stores, services, and one bundle of them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial

from microsub.configuration.model import InstanceSettings, Registration
from microsub.configuration.store import InForce
from microsub.fetch import Fetcher
from microsub.identity.local.login import TypedNames
from microsub.identity.page_check.doctor import PageDoctor
from microsub.identity.page_check.report import profile_page
from microsub.identity.provider.clients import ClientApps, ConsentLimit
from microsub.identity.provider.provider import IndieAuthProvider
from microsub.identity.sign_in.admission import KnownAddresses, OpenAdmission, UsersOnly
from microsub.identity.sign_in.client import SignInClient
from microsub.identity.sign_in.limits import SignInLimits
from microsub.identity.sign_in.profiles import Profiles
from microsub.identity.sign_in.sessions import Sessions
from microsub.identity.store.accounts import Accounts
from microsub.identity.store.codes import Codes
from microsub.identity.store.foreign import ForeignTokens
from microsub.identity.store.grants import Grants, OwnTokens
from microsub.identity.store.rate_limits import AttemptCounts, RequestCounts
from microsub.identity.store.service_tokens import ServiceTokens
from microsub.identity.store.sessions import PendingStore, SessionStore
from microsub.identity.tokens.foreign import ForeignTokenCheck
from microsub.identity.tokens.introspection import Introspection
from microsub.identity.tokens.quotas import RequestRate, SettingsPort, UserQuotas
from microsub.parsing.pool import ParsePool
from microsub.redis.protocol import Redis
from microsub.settings import Settings
from microsub.surface import IdentityServices
from microsub.wiring.local import make_local

InstanceNow = Callable[[], InstanceSettings]


class _OfInstance:
    """The settings in force where users have none of their own."""

    def __init__(self, instance: InstanceNow) -> None:
        self._instance = instance

    async def everything(self) -> InForce:
        """See `SettingsInForce`."""
        return InForce(self._instance())


def make_identity(
    settings: Settings,
    redis: Redis,
    fetcher: Fetcher,
    parser: ParsePool,
    in_force: InstanceNow = InstanceSettings,
    current: SettingsPort | None = None,
) -> IdentityServices:
    """The bundle. `fetcher` is the plain door to the web: what has to do with identity is never taken from a cache.
    `parser` reads what strangers' pages say.

    `in_force` tells the instance's settings without waiting, `current` all settings, as fresh as they are needed for
    what can't be taken back.
    """
    current = current or _OfInstance(in_force)
    private = bool(settings.allow_private_networks)
    profiles = Profiles(fetcher, parser, private=private, own=settings.public_url)
    vouching = Introspection(fetcher, profiles, own=settings.public_url, private=private)
    accounts = Accounts(redis)
    quotas = UserQuotas(current, accounts, RequestRate(RequestCounts(redis)))
    admission = OpenAdmission(accounts, UsersOnly(accounts, profiles), _registration(current), private=private)
    lent = partial(profile_page, settings.public_url)
    sessions = Sessions(SessionStore(redis), lent)
    return IdentityServices(
        profiles=profiles,
        provider=_own_provider(redis, fetcher, parser, quotas, lent),
        sessions=sessions,
        local=make_local(redis, sessions, TypedNames(accounts, lent)),
        signing_in=SignInClient(
            PendingStore(redis), profiles, fetcher, admission, SignInLimits(KnownAddresses(accounts)), private=private
        ),
        verification=ForeignTokenCheck(ForeignTokens(redis), vouching, lambda: in_force().identity),
        doctor=PageDoctor(fetcher, parser, private=private),
        quotas=quotas,
        consents=ConsentLimit(AttemptCounts(redis)),
    )


def _registration(current: SettingsPort) -> Callable[[], Awaitable[Registration]]:
    async def registration() -> Registration:
        return (await current.everything()).instance.registration

    return registration


def _own_provider(
    redis: Redis, fetcher: Fetcher, parser: ParsePool, quotas: UserQuotas, lent: Callable[[str], str]
) -> IndieAuthProvider:
    """Our own IndieAuth server."""
    clients, tokens = ClientApps(fetcher, parser), OwnTokens(redis)
    return IndieAuthProvider(
        Accounts(redis), Codes(redis), Grants(redis), tokens, ServiceTokens(redis), clients, quotas.tokens, lent
    )


@contextlib.asynccontextmanager
async def open_identity(
    settings: Settings,
    redis: Redis,
    fetcher: Fetcher,
    parser: ParsePool,
    in_force: InstanceNow = InstanceSettings,
    current: SettingsPort | None = None,
) -> AsyncIterator[IdentityServices]:
    """The bundle for the block, with whatever has to be taken down at its end."""
    identity = make_identity(settings, redis, fetcher, parser, in_force, current)
    try:
        yield identity
    finally:
        identity.local.close()
