"""The token of a request: as a credential to try, and as a checked grant where the store knows no such token.

The user whom the path names decides whose token it may be: the credential is that user and the token's hash, whatever
the token looks like. At the address without a name, tokens of ours say whose they are; for others see `_owner`.
A token is never shown to anybody but the provider of the user concerned, and there only when nothing is known of it.
"""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from dataclasses import dataclass

from starlette.types import Scope

from microsub.errors import Forbidden, Unauthorized, UserDisabled
from microsub.identity.store.accounts import Accounts
from microsub.identity.store.grants import is_refresh
from microsub.identity.store.service_tokens import MARK
from microsub.identity.tokens.foreign import ForeignTokenCheck
from microsub.kit.http.headers import bearer
from microsub.kit.http.params import Params, shown
from microsub.model.reader import NAME, Credential, Grant

_TOKEN = re.compile(r"[\x21-\x7e]{1,4096}")
_MOST_OWNERS = 4096
_NOT_OURS = "the token is not valid: found a text that is no token of this server"


@dataclass(frozen=True, slots=True)
class PresentedToken:
    """A token as it came, `owner` the user whom the path names, `address` where it came from. Not shown by `repr`.

    `credential` is what to try first.
    """

    token: str
    owner: str | None
    address: str
    credential: Credential

    def __repr__(self) -> str:
        return f"Presented(of {self.credential.user!r})"


class RequestCredentials:
    """Turns what came with a request into a credential or a grant. One per process."""

    def __init__(self, accounts: Accounts, verification: ForeignTokenCheck) -> None:
        self._accounts = accounts
        self._verification = verification
        self._owners: OrderedDict[str, str] = OrderedDict()

    async def presented(self, scope: Scope, params: Params, owner: str | None) -> PresentedToken:
        """The token of a request, unchecked. Raises Unauthorized where there is none, or none that could be good.

        Costs nothing where the path names a user or the token is one of ours.
        """
        token = bearer(scope)
        if token is None:
            token = params.text("access_token")
        if token is None:
            raise Unauthorized(
                "the token is missing: found none, expected it in the header 'Authorization: Bearer …' "
                "or in the parameter 'access_token'"
            )
        if not _TOKEN.fullmatch(token) or token.startswith(MARK) or is_refresh(token):
            raise Unauthorized(_NOT_OURS)
        client = scope.get("client")
        address = client[0] if client else ""
        credential = self._accounts.credential(token)
        if owner is not None:
            if not NAME.match(owner):
                raise Unauthorized("the token is not valid: the address names no user")
            credential = Credential(owner, _digest(token))
        elif credential is None:
            digest = _digest(token)
            credential = Credential(await self._owner(digest), digest)
        elif (known := self._owners.get(credential.digest)) is not None:
            # It looks like one of ours, and is of another server of this kind.
            credential = Credential(known, credential.digest)
        return PresentedToken(token, owner, address, credential)

    async def checked(self, presented: PresentedToken, now: float) -> Grant:
        """What the token allows. Raises Unauthorized, Forbidden for a token of another user, TooManyRequests and
        ProviderUnavailable.
        """
        try:
            return await self._accounts.verify(presented.credential, now)
        except Unauthorized as error:
            return await self.asked(presented, error, now)

    async def asked(self, presented: PresentedToken, error: Unauthorized, now: float) -> Grant:
        """What the token allows that the store knows nothing of, as `error` says: by the provider of the user
        concerned. Then the store knows it, under `Grant.user`. Raises as `checked`.
        """
        if isinstance(error, UserDisabled):
            raise error
        token, credential = presented.token, presented.credential
        if presented.owner is not None:
            await self._refuse_others(presented, now)
        else:
            # The store, or what the token looks like, said whose it could be; if that was wrong, others may be meant.
            self._owners.pop(credential.digest, None)
            credential = Credential(await self._owner(credential.digest), credential.digest)
        grant = await self._verification.check(credential, token, presented.address, now)
        self._learn(credential.digest, grant.user)
        return grant

    async def _refuse_others(self, presented: PresentedToken, now: float) -> None:
        """Refuse a token of ours that is good for another user than the path names: nobody else is to see it."""
        own = self._accounts.credential(presented.token)
        if own is None or own.user == presented.owner:
            return
        try:
            await self._accounts.verify(own, now)
        except UserDisabled:
            raise
        except Unauthorized:
            return
        raise _not_of(presented.owner or "")

    async def _owner(self, digest: str) -> str:
        """Whose a token could be, at the address without a name, that doesn't say it: of the user whose provider has
        vouched for it lately, else of the only user. Raises Unauthorized.
        """
        known = self._owners.get(digest)
        if known is not None:
            return known
        owner = await self._verification.owner(digest)
        if owner is not None:
            self._learn(digest, owner)
        else:
            owner = await self._accounts.only_user()
        if owner is None:
            raise Unauthorized(
                "the token is unknown at this address; with one of your own IndieAuth provider, use '/microsub/<user>'"
            )
        return owner

    def _learn(self, digest: str, owner: str) -> None:
        """Remember whose token that is, so that the store needn't be asked; whether it is good is asked every time."""
        self._owners[digest] = owner
        if len(self._owners) > _MOST_OWNERS:
            self._owners.popitem(last=False)


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _not_of(owner: str) -> Forbidden:
    return Forbidden(f"the token can't be used here: found one of another user, expected one of '{shown(owner)}'")
