"""Sign-in on our own pages: for the application, and for the command line."""

from __future__ import annotations

from microsub.identity.local.login import Invitations, LocalIdentity, LocalSignIn, LoginAttempts, TypedNames
from microsub.identity.local.passkeys import Passkeys
from microsub.identity.local.passwords import Hasher, Passwords
from microsub.identity.sign_in.sessions import Sessions
from microsub.identity.store.accounts import Accounts
from microsub.identity.store.credentials import LocalCredentials
from microsub.identity.store.rate_limits import AttemptCounts
from microsub.identity.store.sessions import SessionStore
from microsub.redis.protocol import Redis


def make_local(redis: Redis, sessions: Sessions | None = None, naming: TypedNames | None = None) -> LocalIdentity:
    """Its parts on one connection. `close` it where its hasher was used."""
    accounts, store, hasher = Accounts(redis), LocalCredentials(redis), Hasher()
    passwords, passkeys = Passwords(store, hasher), Passkeys(store)
    attempts = LoginAttempts(AttemptCounts(redis))
    return LocalIdentity(
        recognising=LocalSignIn(accounts, store, passwords, passkeys, attempts, naming),
        passkeys=passkeys,
        enrolling=Invitations(store, passwords, passkeys, sessions or Sessions(SessionStore(redis)), attempts),
        hasher=hasher,
    )
