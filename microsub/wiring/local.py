"""Sign-in on our own pages: for the application, and for the command line."""

from __future__ import annotations

from microsub.services.identity.attempts import Attempts
from microsub.services.identity.enrolling import Enrolling
from microsub.services.identity.hashing import Hasher
from microsub.services.identity.local import Local
from microsub.services.identity.naming import Naming
from microsub.services.identity.passkeys import Passkeys
from microsub.services.identity.passwords import Passwords
from microsub.services.identity.recognising import Recognising
from microsub.services.identity.sessions import Sessions
from microsub.store.accounts import Accounts
from microsub.store.identity.attempts import AttemptCounts
from microsub.store.identity.credentials import Credentials
from microsub.store.identity.sessions import SessionStore
from microsub.store.port import Redis


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
