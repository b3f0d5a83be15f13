"""App passwords: what people type into apps that speak the Google Reader API.

An app password is stored as a token of its user, whose only scope opens that API alone. Its 99 random bits can't be
guessed, so it needs no slow hash.
"""

from __future__ import annotations

import re

from microsub.accounts.store import Accounts
from microsub.base.digests import new_password
from microsub.model.reader import NATIVE_APP

_TYPED = re.compile(r"[\s-]+")


async def create_app_password(accounts: Accounts, user: str, app: str, now: float) -> str:
    """Create a password for an app, and return it, the only time that it is shown, in groups of five characters.

    It is listed and revoked among the user's tokens. Raises as `Accounts.create_token` does.
    """
    secret = new_password()
    await accounts.create_token(user, [NATIVE_APP], app, now, secret=secret)
    return "-".join(secret[at : at + 5] for at in range(0, len(secret), 5))


def token_of_password(user: str, password: str) -> str:
    """The token that a name and a password are, as people type them: with or without hyphens, in any case.

    What follows an `@` in the name is ignored, because some apps ask for an address.
    """
    return f"{user.strip().partition('@')[0]}.{_TYPED.sub('', password).lower()}"
