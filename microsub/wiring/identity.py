"""What has to do with people's identity: stores, services, and one bundle of them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable

from microsub.config.backend import InstanceSettings
from microsub.config.settings import Settings
from microsub.fetch import Fetcher
from microsub.services.identity.admission import KnownAddresses, UsersOnly
from microsub.services.identity.bundle import Identity
from microsub.services.identity.clients import Clients
from microsub.services.identity.doctor import Doctor
from microsub.services.identity.granting import Granting
from microsub.services.identity.profiles import Profiles
from microsub.services.identity.sessions import Sessions
from microsub.services.identity.signing_in import SigningIn
from microsub.services.identity.turnstile import Turnstile
from microsub.services.identity.verification import Verification
from microsub.services.identity.vouching import Vouching
from microsub.store.accounts import Accounts
from microsub.store.identity.codes import Codes
from microsub.store.identity.foreign import ForeignTokens
from microsub.store.identity.grants import Grants
from microsub.store.identity.own_tokens import OwnTokens
from microsub.store.identity.pending import PendingStore
from microsub.store.identity.sessions import SessionStore
from microsub.store.port import Redis
from microsub.store.servicetokens import ServiceTokens
from microsub.wiring.local import make_local

InForce = Callable[[], InstanceSettings]


def make_identity(settings: Settings, redis: Redis, fetcher: Fetcher, in_force: InForce = InstanceSettings) -> Identity:
    """The bundle. `fetcher` is the plain door to the web: what has to do with identity is never taken from a cache."""
    private = bool(settings.allow_private_networks)
    profiles = Profiles(fetcher, private=private, own=settings.public_url)
    vouching = Vouching(fetcher, profiles, own=settings.public_url, private=private)
    accounts = Accounts(redis)
    admission = UsersOnly(accounts, profiles)
    sessions = Sessions(SessionStore(redis))
    return Identity(
        profiles=profiles,
        granting=_granting(redis, fetcher),
        sessions=sessions,
        local=make_local(redis, sessions),
        signing_in=SigningIn(
            PendingStore(redis), profiles, fetcher, admission, Turnstile(KnownAddresses(accounts)), private=private
        ),
        verification=Verification(ForeignTokens(redis), vouching, lambda: in_force().identity),
        doctor=Doctor(fetcher, private=private),
    )


def _granting(redis: Redis, fetcher: Fetcher) -> Granting:
    """Our own IndieAuth server."""
    return Granting(
        Accounts(redis), Codes(redis), Grants(redis), OwnTokens(redis), ServiceTokens(redis), Clients(fetcher)
    )


@contextlib.asynccontextmanager
async def open_identity(
    settings: Settings, redis: Redis, fetcher: Fetcher, in_force: InForce = InstanceSettings
) -> AsyncIterator[Identity]:
    """The bundle for the block, with whatever has to be taken down at its end."""
    identity = make_identity(settings, redis, fetcher, in_force)
    try:
        yield identity
    finally:
        identity.local.close()
