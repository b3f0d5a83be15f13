"""Sign-in on our own pages, in one value."""

from __future__ import annotations

from dataclasses import dataclass

from microsub.identity.local.hashing import Hasher
from microsub.identity.local.invitations import Enrolling
from microsub.identity.local.passkeys import Passkeys
from microsub.identity.local.recognising import Recognising


@dataclass(frozen=True, slots=True)
class Local:
    """Recognising people, and what they are recognised by."""

    recognising: Recognising
    passkeys: Passkeys
    enrolling: Enrolling
    hasher: Hasher

    def close(self) -> None:
        """End the threads in which passwords are hashed."""
        self.hasher.close()
