"""The IndieAuth provider: consent, codes, tokens, introspection and revocation.

Specs: https://indieauth.spec.indieweb.org/, RFC 6749, RFC 7636, RFC 7009, RFC 7662.
Requests arrive here as values, and refusals leave as OAuthRefused with the codes of RFC 6749, section 5.2.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import groupby

import structlog

from microsub.accounts import (
    Accounts,
    AppGrant,
    Codes,
    Consent,
    Grants,
    Issued,
    OwnToken,
    OwnTokens,
    RedemptionResult,
    ServiceTokens,
    Token,
    create_app_password,
)
from microsub.base import metrics
from microsub.base.digests import is_same
from microsub.base.errors import (
    GRANTED,
    Forbidden,
    InsufficientScope,
    InvalidRequest,
    NotFound,
    OAuthRefused,
    QuotaReached,
    Unauthorized,
)
from microsub.base.identifiers import known_me
from microsub.base.texts import N_, Sentence
from microsub.identity.clients import ClientApps
from microsub.identity.protocol.clients import App, AuthorizationRequest, canonical_client_id, pkce_matches, read_scope
from microsub.identity.protocol.documents import PKCE_METHOD, PROFILE_SCOPE
from microsub.model.reader import ALL_SCOPES, NATIVE_APP, understood
from microsub.redis.protocol import Redis

LONGEST_NAME = 100
"""Characters of a token's name."""

log = structlog.get_logger(__name__)

Person = tuple[str, Mapping[str, str] | None]
"""A person's profile URL (`me`), and their profile if the app may see it."""


@dataclass(frozen=True, slots=True)
class GrantedApp:
    """An app with grants of a user. Times are Unix seconds: `since` and `last` are those of the first and last grant,
    `used` when it last used a token, to within minutes; None: not yet. `sources` are the ids of its sources.
    """

    client: str
    title: str
    scopes: frozenset[str]
    since: float
    last: float
    used: float | None
    times: int
    sources: frozenset[str] = frozenset()


class IndieAuthProvider:
    """Consent, codes and tokens, and revocation."""

    def __init__(
        self,
        redis: Redis,
        clients: ClientApps,
        most: Callable[[str], Awaitable[int]],
        hosted_profile: Callable[[str], str] = lambda _: "",
    ) -> None:
        """`most` returns a user's quota of tokens, 0 for none.

        `hosted_profile` returns the profile URL of a user who has no own page.
        """
        self.clients = clients
        self._hosted_profile = hosted_profile
        self._most = most
        self._accounts = Accounts(redis)
        self._codes = Codes(redis)
        self._grants = Grants(redis)
        self._tokens = OwnTokens(redis)
        self._service_tokens = ServiceTokens(redis)

    async def agree(
        self, user: str, asked: AuthorizationRequest, app: App, chosen: Iterable[str], now: float, *, source: str = ""
    ) -> str:
        """The code for the user's consent: `chosen` are the granted scopes among the requested ones, `source` is the id
        of the source to which the app posts.

        Raises Forbidden if the account is disabled or gone, and QuotaReached.
        """
        if await self._me(user) is None:
            raise Forbidden(N_("Your account is disabled."))
        scopes = understood(frozenset(asked.scopes).intersection(chosen))
        if scopes:
            await self._require_room(user)
        consent = Consent(user, asked.client, app.title, asked.redirect, scopes, asked.challenge, source)
        try:
            code = await self._codes.create(consent, now)
        except NotFound:
            raise Forbidden(N_("Your account is disabled.")) from None
        metrics.GRANTS.labels("consent").inc()
        log.info("an app was authorized", user=user, client=asked.client, scope=" ".join(sorted(scopes)))
        return code

    def deny(self, user: str, asked: AuthorizationRequest) -> None:
        """Record that the user has refused."""
        metrics.GRANTS.labels("denial").inc()
        log.info("the user refused an app", user=user, client=asked.client)

    async def apps(self, user: str) -> list[GrantedApp]:
        """The apps to which the user has granted access, the newest grant first."""
        grants = await self._grants.all(user)
        by_client = groupby(sorted(grants, key=lambda grant: grant.client), key=lambda grant: grant.client)
        found = [_app(client, list(of)) for client, of in by_client]
        return sorted(found, key=lambda app: (-app.last, app.client))

    async def revoke_app(self, user: str, client: str) -> int:
        """End all of the user's grants to an app, from the next request on.

        Returns the number of grants.
        """
        ended = 0
        for grant in await self._grants.all(user):
            if grant.client == client and await self._grants.end(user, grant.id):
                ended += 1
        if ended:
            metrics.GRANTS.labels("revoked").inc(ended)
            log.info("the access of an app was revoked", user=user, client=client, grants=ended)
        return ended

    async def make_token(self, user: str, name: str, scopes: Iterable[str], days: int | None, now: float) -> str:
        """Create a token for an app chosen by the user; it is shown only once.

        `days` None: without an end. Raises InvalidRequest for an invalid name or no valid scope, QuotaReached.
        """
        chosen = frozenset(scopes).intersection(ALL_SCOPES)
        _require_name(name)
        if not chosen:
            raise InvalidRequest(N_("select at least one permission for the token"))
        await self._require_room(user)
        expires = None if days is None else now + days * 86_400
        token = await self._accounts.create_token(user, chosen, name, now, expires)
        log.info("a user created a token", user=user, client=name, scope=" ".join(sorted(chosen)))
        return token

    async def make_app_password(self, user: str, name: str, now: float) -> str:
        """Create an app password; it is shown only once. Raises InvalidRequest for an invalid name, QuotaReached."""
        _require_name(name)
        await self._require_room(user)
        password = await create_app_password(self._accounts, user, name, now)
        log.info("a user created an app password", user=user, client=name)
        return password

    async def given_tokens(self, user: str) -> tuple[list[Token], list[Token]]:
        """The tokens that the user or the admin created, newest first, and the app passwords."""
        given = [token for token in reversed(await self._accounts.tokens(user)) if token.is_given]
        passwords = [token for token in given if NATIVE_APP in token.scopes]
        return [token for token in given if NATIVE_APP not in token.scopes], passwords

    async def end_token(self, user: str, digest: str) -> bool:
        """End one of these tokens, from the next request on; returns whether it existed."""
        held = {token.digest for tokens in await self.given_tokens(user) for token in tokens}
        return digest in held and await self._accounts.revoke(user, digest)

    async def redeem(self, code: str, client: str, redirect: str, verifier: str, now: float) -> tuple[Person, Issued]:
        """The user and the tokens for a code. Raises OAuthRefused, and QuotaReached; then the code stays valid.

        `client` and `redirect` must be those of the request; `verifier` is PKCE's, or empty.
        """
        consent, person = await self._consent(code)
        if not consent.scopes:
            # An access token needs a scope (RFC 6749, section 3.3). The code stays valid for the profile.
            text = "the code gives only the profile, no token: redeem it at the authorization endpoint"
            raise OAuthRefused("invalid_grant", text)
        fits, most = _fitting(client, redirect, verifier), await self._most(consent.user)
        spent, issued = await self._codes.redeem(code, verifier, fits, now, most)
        self._note(spent, "tokens", consent)
        if spent is RedemptionResult.FULL:
            raise QuotaReached(GRANTED, await self._grants.held(consent.user), most)
        if issued is None:
            raise _bad_code(spent)
        return person, issued

    async def redeem_profile(self, code: str, client: str, redirect: str, verifier: str, now: float) -> Person:
        """The user that a code identifies; arguments as for `redeem`. Raises OAuthRefused."""
        consent, person = await self._consent(code)
        spent = await self._codes.redeem_profile(code, _fitting(client, redirect, verifier), now)
        self._note(spent, "profile", consent)
        if not spent.good:
            raise _bad_code(spent)
        return person

    async def renew(self, refresh: str, client: str, scope: str, now: float) -> tuple[Person, Issued]:
        """The user, and new tokens for a refresh token; `scope` may request fewer scopes, and is empty for all.

        Raises OAuthRefused.
        """
        invalid = "the refresh token is unknown, expired, revoked, or was used before"
        grant = await self._grants.find(refresh)
        if grant is None:
            raise OAuthRefused("invalid_grant", invalid)
        if canonical_client_id(client) != grant.client:
            raise OAuthRefused("invalid_grant", "the refresh token belongs to another app")
        wanted = understood(read_scope(scope)) or None
        if wanted and not wanted <= grant.scopes:
            raise OAuthRefused("invalid_scope", "'scope' exceeds the granted scopes")
        person = await self._person(grant.user, wanted or grant.scopes)
        renewed, issued = await self._grants.renew(refresh, wanted, now)
        self._note(renewed, "renewal", grant)
        if issued is None:
            raise OAuthRefused("invalid_grant", invalid)
        return person, issued

    async def introspect(self, token: str, bearer: str | None, now: float) -> OwnToken | None:
        """The access of one of our tokens; None for any other.

        Raises Unauthorized unless `bearer` is the token itself, or a service token.
        """
        if bearer is None:
            raise Unauthorized(
                "the token is missing: found none, expected in the header 'Authorization: Bearer …' the token that is "
                "asked about, or one that 'microsub token service create' has made"
            )
        if not is_same(bearer, token):
            await self._service_tokens.verify(bearer, now)
        return await self._found(token, now)

    async def verify(self, token: str, now: float) -> OwnToken:
        """The access of a request's token. Raises Unauthorized if it is invalid or not ours."""
        found = await self._found(token, now)
        if found is None:
            raise Unauthorized("the token is unknown, expired or revoked")
        return found

    async def revoke(self, token: str) -> None:
        """End an access or refresh token, with everything else of its grant.

        Unknown tokens are no error (RFC 7009, 2.2).
        """
        grant = await self._grants.find(token)
        if grant is not None:
            ended = await self._grants.end(grant.user, grant.id)
        else:
            ended = await self._tokens.revoke(token)
        if ended:
            metrics.GRANTS.labels("revoked").inc()
            log.info("an app revoked its own grant")

    async def userinfo(self, token: str, now: float) -> Mapping[str, str]:
        """The profile that the app of this token is allowed to see.

        Raises Unauthorized, and InsufficientScope.
        """
        found = await self.verify(token, now)
        if PROFILE_SCOPE not in found.scopes:
            raise InsufficientScope(PROFILE_SCOPE)
        return _profile(found.user, found.me)

    async def _require_room(self, user: str) -> None:
        most = await self._most(user)
        if most and (held := await self._grants.held(user)) >= most:
            raise QuotaReached(GRANTED, held, most)

    async def _consent(self, code: str) -> tuple[Consent, Person]:
        """The grant and the user of the code. Raises OAuthRefused."""
        consent = await self._codes.find(code)
        if consent is None:
            raise _bad_code(RedemptionResult.UNKNOWN)
        return consent, await self._person(consent.user, consent.scopes)

    async def _found(self, token: str, now: float) -> OwnToken | None:
        found = await self._tokens.find(token, now)
        me = found and (found.me or self._hosted_profile(found.user))
        return replace(found, me=known_me(me) or me) if found and me else None

    async def _me(self, user: str) -> str | None:
        found = await self._accounts.user(user)
        me = found and (found.me or self._hosted_profile(user))
        return (known_me(me) or me) if found and me and found.disabled is None else None

    async def _person(self, user: str, scopes: frozenset[str]) -> Person:
        me = await self._me(user)
        if me is None:
            raise OAuthRefused("invalid_grant", "the user no longer exists")
        return me, _profile(user, me) if PROFILE_SCOPE in scopes else None

    def _note(self, became: RedemptionResult, what: str, of: Consent | AppGrant) -> None:
        if became is RedemptionResult.REUSED:
            metrics.GRANTS.labels("misused").inc()
            log.warning("used twice, so its grant was revoked", what=what, user=of.user, client=of.client)
        elif became is RedemptionResult.GIVEN:
            metrics.GRANTS.labels(what).inc()
        else:
            metrics.GRANTS.labels("again" if became.good else "refused").inc()


def _require_name(name: str) -> None:
    if not name or len(name) > LONGEST_NAME:
        text = N_("enter a name of 1 to {most} characters, such as that of the app")
        raise InvalidRequest(Sentence(text, most=LONGEST_NAME))


def _fitting(client: str, redirect: str, verifier: str) -> Callable[[Consent], bool]:
    known = canonical_client_id(client)

    def fits(consent: Consent) -> bool:
        if known != consent.client or redirect != consent.redirect:
            return False
        if consent.challenge:
            return pkce_matches(verifier, consent.challenge, PKCE_METHOD)
        # A verifier for a request without a challenge: somebody has removed the challenge (RFC 9700, section 4.8.2).
        return not verifier

    return fits


def _profile(user: str, me: str) -> Mapping[str, str]:
    return {"name": user, "url": me}


def _app(client: str, grants: list[AppGrant]) -> GrantedApp:
    newest = max(grants, key=lambda grant: grant.created)
    scopes = frozenset().union(*(grant.scopes for grant in grants))
    used = max((grant.used for grant in grants if grant.used is not None), default=None)
    first = min(grant.created for grant in grants)
    sources = frozenset(grant.source for grant in grants if grant.source)
    return GrantedApp(client, newest.title, scopes, first, newest.created, used, len(grants), sources)


def _bad_code(spent: RedemptionResult) -> OAuthRefused:
    told = {
        RedemptionResult.EXPIRED: "the code has expired",
        RedemptionResult.REUSED: "the code was used before, and what was given for it has been taken back",
        RedemptionResult.REFUSED: (
            "the code was made for another 'client_id', 'redirect_uri' or 'code_verifier', and is used up"
        ),
    }
    return OAuthRefused("invalid_grant", told.get(spent, "the code is unknown, or was made too long ago"))
