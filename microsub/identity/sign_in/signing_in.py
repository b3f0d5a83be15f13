"""Signing in to our own pages with one's own domain: we are an IndieAuth client
(https://indieauth.spec.indieweb.org/#authorization, RFC 7636 for PKCE, RFC 9207 for `iss`).

`begin` sends the browser to the person's own provider, `finish` takes what it comes back with. A sign-in belongs to the
browser that began it: `state` leads nowhere in another, and the PKCE verifier is an HMAC under the browser's secret,
so that it isn't stored anywhere.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlencode, urlsplit

import structlog

from microsub import metrics
from microsub.errors import InvalidRequest, ProfileError, ProfileMismatch, SignInFailed
from microsub.identity.protocol import pkce
from microsub.identity.protocol.identifiers import shown
from microsub.identity.protocol.me import canonical_me, site_of_me
from microsub.identity.provider.own import is_own
from microsub.identity.sign_in.admission import Admission, Admitted, Refusal, proven
from microsub.identity.sign_in.code_exchange import Redemption, Sender, name_of, redeem
from microsub.identity.sign_in.limits import Turnstile
from microsub.identity.sign_in.profiles import RECENT, Profile, Profiles
from microsub.identity.sign_in.returning import AGAIN, check_issuer, page_failed, refused, single
from microsub.identity.store.pending import PendingStore, SignInUnderWay, size_of

log = structlog.get_logger(__name__)

CLIENT_PATH = "/client"
CALLBACK_PATH = "/sign-in/callback"
SCOPE = "profile"
"""All that is asked for: who somebody is, and how they want to be called. Some older servers refuse an empty scope."""

_CODE = re.compile(r"[\x20-\x7e]{1,4096}")


@dataclass(frozen=True, slots=True)
class Leaving:
    """The browser is to be sent to the person's provider."""

    url: str


@dataclass(frozen=True, slots=True)
class Local:
    """The person's own page names this very server: they sign in here, without HTTP to ourselves."""

    me: str


@dataclass(frozen=True, slots=True)
class Arrived:
    """Somebody has signed in as a user of ours. `how` is the way in words; `next` a path of ours, or empty; `new`: the
    account was made by that.
    """

    user: str
    me: str
    how: str
    next: str
    new: bool = False


class SigningIn:
    """The client's side of a sign-in. `private`: servers may lie in private networks and speak http."""

    def __init__(
        self,
        pending: PendingStore,
        profiles: Profiles,
        sender: Sender,
        admission: Admission,
        turnstile: Turnstile,
        *,
        private: bool = False,
    ) -> None:
        self._pending = pending
        self._profiles = profiles
        self._sender = sender
        self._admission = admission
        self._turnstile = turnstile
        self._private = private

    async def begin(self, entered: str, *, base: str, browser: str, next_: str, address: str) -> Leaving | Local:
        """Find out where the person behind the web address `entered` signs in.

        `base` is our address, `browser` the secret that the browser keeps, `next_` a path of ours or empty, `address`
        the client's. Raises SignInFailed.
        """
        try:
            me = canonical_me(entered, private=self._private)
        except InvalidRequest:
            raise SignInFailed(
                "That is no web address to sign in with",
                f"“{shown(entered)}” can't be used. Enter the address of your own site, such as "
                "https://your-name.example/, without a port, a user name or a “#” in it.",
            ) from None
        if is_own(me, base):
            metrics.SIGN_INS.labels("local").inc()
            return Local(me)
        await self._turnstile.enter(me, address)
        async with self._turnstile.place(me, address, site_of_me(me)):
            profile = await self._profile(me)
        authorization = self._authorization_of(profile)
        if is_own(authorization, base):
            metrics.SIGN_INS.labels("local").inc()
            return Local(me)
        state = secrets.token_urlsafe(32)
        metadata = profile.metadata
        sign_in = SignInUnderWay(
            me=me,
            authorization_endpoint=authorization,
            token_endpoint=profile.token_endpoint,
            revocation_endpoint=metadata.revocation_endpoint if metadata else None,
            issuer=profile.issuer,
            names_itself=metadata.iss_in_response if metadata else False,
            base=base,
            browser=_digest(browser),
            next=next_,
        )
        await self._turnstile.leave(me, size_of(sign_in))
        await self._pending.put(_digest(state), sign_in)
        metrics.SIGN_INS.labels("begun").inc()
        return Leaving(_request(sign_in, state, _verifier(browser, state)))

    async def finish(
        self, answer: Iterable[tuple[str, str]], *, browser: str, now: float, address: str = ""
    ) -> Arrived:
        """Who has come back: `answer` is the query of the address that the provider sent the browser to, `address` the
        client's.

        Raises SignInFailed. Whatever the outcome, the same answer is good for nothing afterwards.
        """
        try:
            verdict, who, next_ = await self._arrive(answer, browser, now, address)
        except SignInFailed:
            metrics.SIGN_INS.labels("failed").inc()
            raise
        if isinstance(verdict, Refusal):
            metrics.SIGN_INS.labels("unknown").inc()
            raise SignInFailed(verdict.title, verdict.text, verdict.status)
        metrics.SIGN_INS.labels("arrived").inc()
        log.info("signed in", user=verdict.user, provider=who)
        return Arrived(verdict.user, verdict.me, f"with {who}", next_, verdict.new)

    async def _arrive(
        self, answer: Iterable[tuple[str, str]], browser: str, now: float, address: str
    ) -> tuple[Admitted | Refusal, str, str]:
        """Whether somebody who was confirmed may come in; the provider's name; and where to go afterwards."""
        said = single(answer)
        state = said.get("state", "")
        sign_in = await self._taken(state, browser)
        who = name_of(sign_in.authorization_endpoint)
        check_issuer(sign_in, said.get("iss"), who)
        if "error" in said:
            raise refused(said, who)
        code = said.get("code", "")
        if not _CODE.fullmatch(code):
            raise SignInFailed("The provider sent no code", f"{who} sent you back without the code it owes. {AGAIN}")
        redemption = Redemption(
            code, sign_in.base + CLIENT_PATH, sign_in.base + CALLBACK_PATH, _verifier(browser, state)
        )
        async with self._turnstile.place(sign_in.me, address, who):
            found = await redeem(self._sender, sign_in, redemption, now, private=self._private)
            profile = await self._confirmed(sign_in, found.me, who)
            verdict = await self._admission.admit(proven(sign_in.me, found.me, profile, found.profile))
        if isinstance(verdict, Refusal):
            log.info("nobody we know has signed in", provider=who, me=found.me)
        return verdict, who, sign_in.next

    async def _profile(self, me: str) -> Profile:
        try:
            return await self._profiles.discover(me, max_age=RECENT)
        except (InvalidRequest, ProfileError) as problem:
            raise page_failed(problem, me) from None

    def _authorization_of(self, profile: Profile) -> str:
        found = profile.authorization_endpoint
        if found is None:
            raise SignInFailed(
                "Your page names no provider to sign in with",
                f"{profile.page} was read and names no authorization_endpoint. Add the links of your provider to the "
                "page, then try again.",
            )
        if urlsplit(found).scheme != "https" and not self._private:
            raise SignInFailed(
                "The provider isn't safe to use",
                f"{profile.page} names the provider {name_of(found)} without https, so that anybody on the way could "
                "sign in as you. Change the link on your page to one that begins with https.",
            )
        return found

    async def _taken(self, state: str, browser: str) -> SignInUnderWay:
        """The sign-in of that `state`, which this browser began. Nobody else can use it up."""
        digest = _digest(state)
        sign_in = await self._pending.look(digest) if state else None
        if sign_in is None:
            raise SignInFailed(
                "This sign-in is over",
                "It was not begun here, took longer than a quarter of an hour, or was finished before. " + AGAIN,
            )
        if not browser or not hmac.compare_digest(sign_in.browser, _digest(browser)):
            raise SignInFailed(
                "This sign-in was begun in another browser",
                "For your safety it can only be finished where it was begun. If this is the browser, it keeps no "
                f"cookies for {sign_in.base}, or you have signed in or out in between. {AGAIN}",
                403,
            )
        if not await self._pending.take(digest):
            raise SignInFailed("This sign-in is over", f"It was finished before. {AGAIN}")
        return sign_in

    async def _confirmed(self, sign_in: SignInUnderWay, returned: str, who: str) -> Profile:
        try:
            return await self._profiles.confirm(
                sign_in.me, returned, authorization=sign_in.authorization_endpoint, issuer=sign_in.issuer
            )
        except ProfileMismatch:
            raise SignInFailed(
                "The provider spoke for somebody else",
                f"{who} says that you are {returned}, but that page does not name {who} as its provider. You are not "
                "signed in. If the page is yours, put the links of this provider on it.",
                403,
            ) from None
        except (InvalidRequest, ProfileError) as problem:
            raise page_failed(problem, returned) from None


def client_document(base: str, name: str, logo: str) -> dict[str, object]:
    """What we say of ourselves as a client (https://indieauth.spec.indieweb.org/#client-metadata). `logo` is a path."""
    return {
        "client_id": base + CLIENT_PATH,
        "client_name": name,
        "client_uri": f"{base}/",
        "logo_uri": base + logo,
        "redirect_uris": [base + CALLBACK_PATH],
        "grant_types": ["authorization_code"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        "scope": SCOPE,
    }


def _request(sign_in: SignInUnderWay, state: str, verifier: str) -> str:
    """The address of the provider with our question in it; a query that it has of its own stays."""
    values = {
        "response_type": "code",
        "client_id": sign_in.base + CLIENT_PATH,
        "redirect_uri": sign_in.base + CALLBACK_PATH,
        "state": state,
        "code_challenge": pkce.challenge(verifier),
        "code_challenge_method": pkce.METHOD,
        "scope": SCOPE,
        "me": sign_in.me,
    }
    joint = "&" if urlsplit(sign_in.authorization_endpoint).query else "?"
    return f"{sign_in.authorization_endpoint.rstrip('?')}{joint}{urlencode(values)}"


def _verifier(browser: str, state: str) -> str:
    made = hmac.digest(browser.encode(), f"verifier\n{state}".encode(), hashlib.sha256)
    return urlsafe_b64encode(made).rstrip(b"=").decode()


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
