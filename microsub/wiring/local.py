"""Sign-in on our own pages: for the application, and for the command line."""

from __future__ import annotations

from microsub.identity.local.attempts import Attempts
from microsub.identity.local.bundle import Local
from microsub.identity.local.hashing import Hasher
from microsub.identity.local.invitations import Enrolling
from microsub.identity.local.naming import Naming
from microsub.identity.local.passkeys import Passkeys
from microsub.identity.local.passwords import Passwords
from microsub.identity.local.recognising import Recognising
from microsub.identity.sign_in.sessions import Sessions
from microsub.identity.store.accounts import Accounts
from microsub.identity.store.attempts import AttemptCounts
from microsub.identity.store.credentials import Credentials
from microsub.identity.store.sessions import SessionStore
from microsub.redis.protocol import Redis


def make_local(redis: Redis, sessions: Sessions | None = None, naming: Naming | None = None) -> Local:
    """Its parts on one connection. `close` it where its hasher was used."""
    accounts, store, hasher = Accounts(redis), Credentials(redis), Hasher()
    passwords, passkeys = Passwords(store, hasher), Passkeys(store)
    attempts = Attempts(AttemptCounts(redis))
    return Local(
        recognising=Recognising(accounts, store, passwords, passkeys, attempts, naming),
        passkeys=passkeys,
        enrolling=Enrolling(store, passwords, passkeys, sessions or Sessions(SessionStore(redis)), attempts),
        hasher=hasher,
    )
