"""Sign-in by another provider: this server is an IndieAuth client
(https://indieauth.spec.indieweb.org/#authorization, RFC 7636 for PKCE, RFC 9207 for `iss`), and its rate limits.

`begin` redirects the browser to the person's own provider, `finish` handles its return. A sign-in belongs to the
browser that began it: `state` is invalid in another one, and the PKCE verifier is an HMAC with the browser's secret, so
that it isn't stored anywhere.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import KW_ONLY, dataclass, field, replace
from urllib.parse import urlencode

import structlog

from microsub.accounts import SIGN_IN, PendingStore, SignedInPerson, SignInUnderWay
from microsub.base import metrics
from microsub.base.digests import is_same, keyed_digest, new_secret, sha256_hex
from microsub.base.errors import (
    InvalidRequest,
    ParseError,
    ProfileError,
    ProfileMismatch,
    ProfileUnreachable,
    SignInFailed,
)
from microsub.base.identifiers import alike, canonical_me, identifier, shown, site_of_me
from microsub.base.rate_limits import RateLimit, RateLimiter, Slot, is_public, network_of, wide_network_of
from microsub.base.texts import Sentence
from microsub.base.urls import parts_of
from microsub.fetch import Answered, FetchFailed, Sender, Sending
from microsub.identity import limits
from microsub.identity.admission import Admission, Refusal, UserAddresses, failed, proven
from microsub.identity.limits import PROFILE_RECENT
from microsub.identity.profiles import Profile, Profiles
from microsub.identity.protocol.clients import pkce_challenge
from microsub.identity.protocol.documents import PKCE_METHOD, CodeAnswer, is_own, read_code_answer, read_error

log = structlog.get_logger(__name__)

CLIENT_PATH = "/client"
CALLBACK_PATH = "/sign-in/callback"
CALLBACK_OF_POSTING = "/answer/callback"
SCOPE = "profile"
"""Requested at a sign-in: the identity, and the displayed name. Some older servers refuse an empty scope."""
POSTING_SCOPE = "profile create"

_CODE = re.compile(r"[\x20-\x7e]{1,4096}")
_POSTING = frozenset({"create", "post"})
_NOT_THERE = frozenset({404, 405, 501})
_SINGLE = ("code", "state", "iss", "error", "error_description")


@dataclass(frozen=True, slots=True)
class PostingAccess:
    """The token and endpoint for posting on a user's site; `expires` in Unix seconds. `repr` doesn't show the token."""

    micropub: str
    token: str = field(repr=False)
    expires: float | None = None
    revocation: str | None = None
    next: str = ""


@dataclass(eq=False, repr=False)
class SignInClient:
    """The client's side of a sign-in.

    `private`: servers may be in private networks and use http.
    """

    pending: PendingStore
    profiles: Profiles
    sender: Sender
    admission: Admission
    limits: SignInLimits
    _: KW_ONLY
    private: bool = False

    async def begin(self, entered: str, *, base: str, browser: str, next_: str, address: str) -> tuple[str, str | None]:
        """The canonical address for `entered`, and the provider's URL to redirect the browser to.

        The URL is None if the person signs in at this server. `base` is our address, `browser` the browser's secret,
        `next_` a path of ours or empty, `address` the client's. Raises SignInFailed.
        """
        try:
            me = canonical_me(entered, private=self.private)
        except InvalidRequest:
            raise failed("no-address", text=shown(entered)) from None
        profile = authorization = None
        if not is_own(me, base):
            await self.limits.enter(me, address)
            async with self.limits.place(me, address, site_of_me(me)):
                profile = await self._profile(me)
            authorization = self._authorization_of(profile)
        if profile is None or authorization is None or is_own(authorization, base):
            metrics.SIGN_INS.labels("local").inc()
            return me, None
        url = await self._sent(_under_way(me, profile, authorization, base, browser, next_), browser)
        metrics.SIGN_INS.labels("begun").inc()
        return me, url

    async def begin_posting(self, user: str, me: str, *, base: str, browser: str, next_: str, address: str) -> str:
        """The provider's URL at which a user with the profile URL `me` allows this server to post on their site.

        The rest is as with `begin`. Raises SignInFailed.
        """
        await self.limits.enter(me, address)
        async with self.limits.place(me, address, site_of_me(me)):
            profile = await self._profile(me)
        asked = _under_way(me, profile, self._authorization_of(profile), base, browser, next_)
        return await self._sent(replace(asked, user=user, micropub=self._micropub_of(profile, base)), browser)

    async def finish_posting(
        self, answer: Iterable[tuple[str, str]], *, user: str, browser: str, now: float, address: str
    ) -> PostingAccess:
        """The permission to post that `user` has brought from their provider. Raises SignInFailed."""
        asked, code, verifier = await self._returned(answer, browser, CALLBACK_OF_POSTING)
        if asked.user != user:
            raise failed("another-user")
        who = provider_name(asked.authorization_endpoint)
        async with self.limits.place(asked.me, address, who):
            given = await self._ask(asked.token_endpoint or "", _redemption(asked, code, verifier), who)
            found = self._understood(given, who, now)
            profile = await self._confirmed(asked, found.me, who)
        if asked.me not in profile.names and not alike(asked.me, profile.me):
            raise failed("of-somebody-else", who=who, me=found.me, known=asked.me)
        if found.access_token is None or (found.scopes and found.scopes.isdisjoint(_POSTING)):
            raise failed("may-not-post", who=who)
        log.info("a user allowed this server to post on their site", user=user, provider=who)
        return PostingAccess(asked.micropub, found.access_token, found.expires, asked.revocation_endpoint, asked.next)

    async def _sent(self, sign_in: SignInUnderWay, browser: str) -> str:
        """Store a sign-in until the person returns; returns the provider's URL."""
        state = new_secret()
        await self.limits.leave(sign_in.me, sign_in.size)
        await self.pending.put(sha256_hex(state), sign_in)
        return _request(sign_in, state, _verifier(browser, state))

    async def finish(
        self, answer: Iterable[tuple[str, str]], *, browser: str, now: float, address: str = ""
    ) -> SignedInPerson:
        """The person who has returned from their provider.

        `answer` is the query of the address to which the provider redirected the browser, `address` the client's.
        Raises SignInFailed. Whatever the outcome, the same answer can't be used again.
        """
        try:
            found = await self._arrive(answer, browser, now, address)
        except SignInFailed as problem:
            metrics.SIGN_INS.labels("unknown" if isinstance(problem, Refusal) else "failed").inc()
            raise
        metrics.SIGN_INS.labels("arrived").inc()
        log.info("signed in", user=found.user, how=found.how)
        return found

    async def _arrive(
        self, answer: Iterable[tuple[str, str]], browser: str, now: float, address: str
    ) -> SignedInPerson:
        sign_in, code, verifier = await self._returned(answer, browser, CALLBACK_PATH)
        who = provider_name(sign_in.authorization_endpoint)
        async with self.limits.place(sign_in.me, address, who):
            found = await self._redeem(sign_in, code, verifier, now)
            profile = await self._confirmed(sign_in, found.me, who)
            verdict = await self.admission.admit(proven(sign_in.me, found.me, profile))
        if isinstance(verdict, Refusal):
            log.info("a sign-in by a person without an account", provider=who, me=found.me)
            raise verdict
        return replace(verdict, how=f"with {who}", next=sign_in.next)

    async def _returned(
        self, answer: Iterable[tuple[str, str]], browser: str, callback: str
    ) -> tuple[SignInUnderWay, str, str]:
        """The sign-in that returned to that path, its code, and its verifier."""
        said = answer_parameters(answer)
        state = said.get("state", "")
        sign_in = await self._taken(state, browser)
        if _callback(sign_in) != callback:
            raise failed("begun-for-something-else")
        who = provider_name(sign_in.authorization_endpoint)
        check_issuer(sign_in, said.get("iss"), who)
        if said.get("error") == "access_denied":
            raise failed("refused", who=who)
        if "error" in said:
            reason = shown(said.get("error_description") or said["error"])
            raise failed("provider-says", who=who, reason=reason)
        code = said.get("code", "")
        if not _CODE.fullmatch(code):
            raise failed("no-code", who=who)
        return sign_in, code, _verifier(browser, state)

    async def _profile(self, me: str) -> Profile:
        try:
            return await self.profiles.discover(me, max_age=PROFILE_RECENT)
        except (InvalidRequest, ProfileError) as problem:
            raise _profile_failed(problem, me) from None

    def _authorization_of(self, profile: Profile) -> str:
        found = profile.authorization_endpoint
        if found is None:
            raise failed("no-provider", page=profile.page)
        if parts_of(found).scheme != "https" and not self.private:
            raise failed("provider-without-https", page=profile.page, provider=provider_name(found))
        return found

    def _micropub_of(self, profile: Profile, base: str) -> str:
        """The Micropub endpoint that the person's page names, on another server."""
        found = profile.endpoints.get("micropub")
        if found is None or is_own(found, base) or profile.token_endpoint is None:
            raise failed("no-micropub", page=profile.page)
        if not self.private and not all(parts_of(url).scheme == "https" for url in (found, profile.token_endpoint)):
            raise failed("micropub-without-https", page=profile.page)
        return found

    async def _taken(self, state: str, browser: str) -> SignInUnderWay:
        """The sign-in of that `state`, which this browser began. Other browsers can't use it up."""
        digest = sha256_hex(state)
        sign_in = await self.pending.look(digest) if state else None
        if sign_in is None:
            raise failed("over", number=SIGN_IN // 60)
        if not browser or not is_same(sign_in.browser, sha256_hex(browser)):
            raise failed("another-browser", base=sign_in.base)
        if not await self.pending.take(digest):
            raise failed("finished")
        return sign_in

    async def _redeem(self, sign_in: SignInUnderWay, code: str, verifier: str, now: float) -> CodeAnswer:
        """The identity that the provider returns: only a claim until the person's page confirms it."""
        form = _redemption(sign_in, code, verifier)
        who = provider_name(sign_in.authorization_endpoint)
        answer = await self._ask(sign_in.authorization_endpoint, form, who)
        if answer.status in _NOT_THERE and sign_in.token_endpoint and _is_beside(sign_in):
            answer = await self._ask(sign_in.token_endpoint, form, who)
        found = self._understood(answer, who, now)
        if found.access_token is not None and sign_in.revocation_endpoint is not None:
            # The token isn't needed, so it is revoked (RFC 7009).
            revoked = await self.sender.send(
                Sending(sign_in.revocation_endpoint, "POST", form={"token": found.access_token})
            )
            if isinstance(revoked, FetchFailed) or revoked.status != 200:
                log.info("a provider did not revoke an unneeded token", provider=who)
        return found

    def _understood(self, answer: Answered, who: str, now: float) -> CodeAnswer:
        """The provider's reply to a code."""
        if answer.status != 200:
            raise _refused_code(answer, who)
        try:
            return read_code_answer(answer.body, answer.final_url, answer.content_type, now=now, private=self.private)
        except ParseError as problem:
            raise failed("unreadable", who=who, detail=problem.detail) from None

    async def _ask(self, url: str, form: Mapping[str, str], who: str) -> Answered:
        answer = await self.sender.send(Sending(url, "POST", form=form))
        if isinstance(answer, FetchFailed):
            raise failed("silent", who=who, detail=answer.detail)
        return answer

    async def _confirmed(self, sign_in: SignInUnderWay, returned: str, who: str) -> Profile:
        try:
            return await self.profiles.confirm(
                sign_in.me, returned, authorization=sign_in.authorization_endpoint, issuer=sign_in.issuer
            )
        except ProfileMismatch:
            raise failed("for-somebody-else", who=who, returned=returned) from None
        except (InvalidRequest, ProfileError) as problem:
            raise _profile_failed(problem, returned) from None


def answer_parameters(answer: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The parameters used here.

    Raises SignInFailed if one is repeated, since servers treat that differently.
    """
    found: dict[str, str] = {}
    for name, value in answer:
        if name in _SINGLE:
            if name in found:
                raise failed("ambiguous", name=name)
            found[name] = value
    return found


def check_issuer(sign_in: SignInUnderWay, iss: str | None, who: str) -> None:
    """Check that the answer is from the provider that was asked (RFC 9207).

    A provider without metadata has no issuer to compare with: then the name must at least have the origin that was
    asked. Raises SignInFailed.
    """
    if sign_in.issuer is None:
        right = iss is None or is_own(sign_in.authorization_endpoint, _origin(iss))
    else:
        right = not sign_in.names_itself if iss is None else is_same(iss, sign_in.issuer)
    if not right:
        raise failed(
            "another-provider",
            who=who,
            what=Sentence("does not name its sender") if iss is None else Sentence("is from {iss}", iss=shown(iss)),
        )


def _origin(url: str) -> str:
    parts = parts_of(url) if re.fullmatch(r"https?://[\x21-\x7e]{1,2000}", url) else parts_of("")
    return f"{parts.scheme}://{parts.netloc}"


def _profile_failed(problem: InvalidRequest | ProfileError, me: str) -> SignInFailed:
    if isinstance(problem, InvalidRequest):
        return failed("unusable", description=problem.description)
    if isinstance(problem, ProfileUnreachable):
        return failed("page-unreachable", url=problem.url, detail=problem.detail)
    return failed("page-unusable", me=me, url=problem.url, detail=problem.detail)


def _is_beside(sign_in: SignInUnderWay) -> bool:
    """Whether the token endpoint belongs to the server that issued the code."""
    made, other = sign_in.authorization_endpoint, sign_in.token_endpoint
    return other is not None and other != made and identifier(other).origin == identifier(made).origin


def _refused_code(answer: Answered, who: str) -> SignInFailed:
    said = read_error(answer.body, answer.final_url, answer.content_type)
    if answer.status >= 500 or answer.status == 429:
        return failed("failing", who=who, status=answer.status)
    reason: str = Sentence("status {status}", status=answer.status)
    if said is not None:
        reason = f"“{said}”"
    return failed("not-confirmed", who=who, reason=reason)


def provider_name(url: str) -> str:
    """A provider's name in messages: its host and port."""
    return parts_of(url).netloc.rpartition("@")[2]


def client_document(base: str, name: str, logo: str) -> dict[str, object]:
    """This server's metadata as a client; `logo` is a path.

    https://indieauth.spec.indieweb.org/#client-metadata
    """
    return {
        "client_id": base + CLIENT_PATH,
        "client_name": name,
        "client_uri": f"{base}/",
        "logo_uri": base + logo,
        "redirect_uris": [base + CALLBACK_PATH, base + CALLBACK_OF_POSTING],
        "grant_types": ["authorization_code"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        "scope": POSTING_SCOPE,
    }


def _under_way(me: str, profile: Profile, authorization: str, base: str, browser: str, next_: str) -> SignInUnderWay:
    """The pending sign-in, with the authorization request for the provider that the page names."""
    metadata = profile.metadata
    return SignInUnderWay(
        me=me,
        authorization_endpoint=authorization,
        token_endpoint=profile.token_endpoint,
        revocation_endpoint=metadata.revocation_endpoint if metadata else None,
        issuer=profile.issuer,
        names_itself=metadata.iss_in_response if metadata else False,
        base=base,
        browser=sha256_hex(browser),
        next=next_,
    )


def _callback(sign_in: SignInUnderWay) -> str:
    return CALLBACK_OF_POSTING if sign_in.user else CALLBACK_PATH


def _redemption(sign_in: SignInUnderWay, code: str, verifier: str) -> Mapping[str, str]:
    """The form that redeems a code."""
    return {
        "grant_type": "authorization_code",
        "code": code,
        "client_id": sign_in.base + CLIENT_PATH,
        "redirect_uri": sign_in.base + _callback(sign_in),
        "code_verifier": verifier,
    }


def _request(sign_in: SignInUnderWay, state: str, verifier: str) -> str:
    """The provider's address with our parameters; its own query is kept."""
    values = {
        "response_type": "code",
        "client_id": sign_in.base + CLIENT_PATH,
        "redirect_uri": sign_in.base + _callback(sign_in),
        "state": state,
        "code_challenge": pkce_challenge(verifier),
        "code_challenge_method": PKCE_METHOD,
        "scope": POSTING_SCOPE if sign_in.user else SCOPE,
        "me": sign_in.me,
    }
    joint = "&" if parts_of(sign_in.authorization_endpoint).query else "?"
    return f"{sign_in.authorization_endpoint.rstrip('?')}{joint}{urlencode(values)}"


def _verifier(browser: str, state: str) -> str:
    return keyed_digest(browser, f"verifier\n{state}")


class SignInLimits:
    """Rate limits for starting a sign-in, which needs no account. They raise SignInFailed.

    Starting one makes this server fetch a page. Strangers can't use up the limits of users' addresses.
    """

    def __init__(self, known: UserAddresses) -> None:
        self._known = known
        self._limiter = RateLimiter()

    async def enter(self, me: str, address: str) -> None:
        """Count a sign-in with the page `me` (canonical), begun from a client's address.

        The limit per site doesn't apply to users' addresses.
        """
        known = await self._known.has(me)
        by_network = _of_network(address, limits.SIGN_INS_OF_NETWORK, limits.SIGN_INS_OF_WIDE_NETWORK)
        if not all(self._limiter.count(*place) for place in by_network):
            raise failed("too-many-begun")
        if not self._limiter.count(limits.SIGN_INS_AT_SITE, site_of_me(me)) and not known:
            raise failed("site-asked-too-often", site=site_of_me(me))
        if not self._limiter.count(limits.SIGN_INS_IN_ALL, _kind(known)):
            raise failed("full")

    async def leave(self, me: str, size: int) -> None:
        """Count the bytes that a sign-in occupies in the store until the person returns."""
        if not await self._known.has(me) and not self._limiter.count(limits.SIGN_IN_BYTES, weight=size):
            raise failed("full")

    @asynccontextmanager
    async def place(self, me: str, address: str, site: str) -> AsyncIterator[None]:
        """Reserve a slot among the sign-ins that wait for other servers, which may be slow.

        `site` is the host. Users' addresses have their own slots.
        """
        kind = _kind(await self._known.has(me))
        shares = [
            (limits.WAITING_OF_PERSON, me),
            (limits.WAITING_AT_SITE, f"{kind} {site}"),
            *_of_network(address, limits.WAITING_OF_NETWORK, limits.WAITING_OF_WIDE_NETWORK),
        ]
        with (
            self._limiter.holding(*shares, refusal=failed("too-many-at-once", site=site)),
            self._limiter.holding((limits.WAITING_IN_ALL, kind), refusal=failed("full")),
        ):
            yield


def _of_network(address: str, narrow: RateLimit, wide: RateLimit) -> Iterable[Slot]:
    """The keys by which a client's address is counted: none unless it is public."""
    if is_public(address):
        yield narrow, network_of(address)
        if (network := wide_network_of(address)) is not None:
            yield wide, network


def _kind(known: bool) -> str:
    return "users" if known else "others"
