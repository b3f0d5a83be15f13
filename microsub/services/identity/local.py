"""Sign-in on our own pages, in one value."""

from __future__ import annotations

from dataclasses import dataclass

from microsub.services.identity.enrolling import Enrolling
from microsub.services.identity.hashing import Hasher
from microsub.services.identity.passkeys import Passkeys
from microsub.services.identity.recognising import Recognising


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
