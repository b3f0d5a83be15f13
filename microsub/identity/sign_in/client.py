"""Sign-in by another provider, of which this server is an IndieAuth client
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
from dataclasses import dataclass, field
from urllib.parse import urlencode, urlsplit

import structlog

from microsub import metrics
from microsub.errors import InvalidRequest, ParseError, ProfileError, ProfileMismatch, ProfileUnreachable, SignInFailed
from microsub.fetch import Answered, FetchFailed, Sender, Sending
from microsub.identity.lifetimes import PROFILE_RECENT
from microsub.identity.protocol import pkce
from microsub.identity.protocol.identifiers import canonical_me, shown, site_of_me
from microsub.identity.protocol.metadata import is_own
from microsub.identity.protocol.replies import CodeAnswer, read_code_answer, read_error
from microsub.identity.sign_in.admission import Admission, Admitted, Refusal, proven
from microsub.identity.sign_in.limits import SignInLimits
from microsub.identity.sign_in.profiles import Profile, Profiles
from microsub.identity.store.sessions import PendingStore, SignInUnderWay, size_of
from microsub.kit.identifiers import identifier

_SINGLE = ("code", "state", "iss", "error", "error_description")

AGAIN = "Start the sign-in again."


def answer_parameters(answer: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The parameters that concern us. Raises SignInFailed where one stands twice, since servers disagree then."""
    found: dict[str, str] = {}
    for name, value in answer:
        if name in _SINGLE:
            if name in found:
                raise SignInFailed("The provider's answer is ambiguous", f"It holds '{name}' twice. {AGAIN}")
            found[name] = value
    return found


def check_issuer(sign_in: SignInUnderWay, iss: str | None, who: str) -> None:
    """Make sure that the answer is the provider's that was asked, not of one that it sent the browser on to (RFC 9207).

    A provider without metadata has no issuer to compare with: then the name must at least lie where it was asked.
    """
    if sign_in.issuer is None:
        right = iss is None or is_own(sign_in.authorization_endpoint, _origin(iss))
    else:
        right = not sign_in.names_itself if iss is None else hmac.compare_digest(iss.encode(), sign_in.issuer.encode())
    if right:
        return
    what = "does not say whose it is" if iss is None else f"is from {shown(iss)}"
    raise SignInFailed(
        "The answer is from another provider",
        f"You were sent to {who}, and the answer that came back {what}. Somebody may have tried to mix up two "
        "providers, so you are not signed in. " + AGAIN,
        403,
    )


def refused_answer(said: dict[str, str], who: str) -> SignInFailed:
    """What to tell of an answer that holds an `error` instead of a code."""
    if said["error"] == "access_denied":
        return SignInFailed(
            "You were not signed in",
            f"{who} says that access was denied: you, or it, said no. You can start again whenever you like.",
            403,
        )
    reason = shown(said.get("error_description") or said["error"])
    text = f"{who} says: “{reason}”. {AGAIN} If it happens again, tell the people who run {who}."
    return SignInFailed("The provider did not sign you in", text, 502)


def profile_failed(problem: InvalidRequest | ProfileError, me: str) -> SignInFailed:
    """What to tell of a profile page that couldn't be had or used."""
    if isinstance(problem, InvalidRequest):
        return SignInFailed("The provider's answer can't be used", f"{problem.description}. {AGAIN}", 502)
    if isinstance(problem, ProfileUnreachable):
        return SignInFailed(
            "Your page can't be reached",
            f"To find your provider, {problem.url} was asked: {problem.detail}. Check the address that you entered; "
            "if it is right, try again in a while.",
            503,
        )
    return SignInFailed(
        "Your page doesn't say where you sign in",
        f"To find the provider of {me}, {problem.url} was read: {problem.detail}. Correct that, then try again.",
    )


def _origin(url: str) -> str:
    parts = urlsplit(url) if re.fullmatch(r"https?://[\x21-\x7e]{1,2000}", url) else urlsplit("")
    return f"{parts.scheme}://{parts.netloc}"


log = structlog.get_logger(__name__)

_NOT_THERE = frozenset({404, 405, 501})


@dataclass(frozen=True, slots=True)
class CodeRedemption:
    """What proves that a code is ours to redeem."""

    code: str = field(repr=False)
    client_id: str
    redirect_uri: str
    verifier: str = field(repr=False)


async def redeem(
    sender: Sender, sign_in: SignInUnderWay, redemption: CodeRedemption, now: float, *, private: bool
) -> CodeAnswer:
    """What the provider says of who has signed in: a claim, until the profile's own page confirms it.

    Raises SignInFailed, which names the provider.
    """
    form = {
        "grant_type": "authorization_code",
        "code": redemption.code,
        "client_id": redemption.client_id,
        "redirect_uri": redemption.redirect_uri,
        "code_verifier": redemption.verifier,
    }
    who = provider_name(sign_in.authorization_endpoint)
    answer = await _ask_provider(sender, sign_in.authorization_endpoint, form, who)
    token_endpoint = sign_in.token_endpoint
    if answer.status in _NOT_THERE and token_endpoint and _is_beside(sign_in):
        answer = await _ask_provider(sender, token_endpoint, form, who)
    if answer.status != 200:
        raise _refused_code(answer, who)
    try:
        found = read_code_answer(answer.body, answer.final_url, answer.content_type, now=now, private=private)
    except ParseError as problem:
        raise SignInFailed(
            "The provider's answer can't be read",
            f"{who} was asked who you are, and its answer makes no sense: {problem.detail}. Tell the people who run "
            f"{who}, or name another provider on your page.",
            502,
        ) from None
    if found.access_token is not None:
        await _hand_back(sender, sign_in, found.access_token)
    return found


def _is_beside(sign_in: SignInUnderWay) -> bool:
    """Whether the token endpoint is another address of the server that made the code."""
    made, other = sign_in.authorization_endpoint, sign_in.token_endpoint
    return other is not None and other != made and identifier(other).origin == identifier(made).origin


async def _ask_provider(sender: Sender, url: str, form: dict[str, str], who: str) -> Answered:
    answer = await sender.send(Sending(url, "POST", form=form))
    if isinstance(answer, FetchFailed):
        raise SignInFailed(
            "The provider doesn't answer",
            f"{who} was asked who you are, and could not be reached: {answer.detail}. Try again in a while.",
            503,
        )
    return answer


def _refused_code(answer: Answered, who: str) -> SignInFailed:
    said = read_error(answer.body, answer.final_url, answer.content_type)
    if answer.status >= 500 or answer.status == 429:
        return SignInFailed(
            "The provider has a problem",
            f"{who} was asked who you are, and failed with status {answer.status}. Try again in a while.",
            503,
        )
    reason = f"“{said.description or said.error}”" if said else f"status {answer.status}"
    return SignInFailed(
        "The provider does not confirm you",
        f"{who} was asked who you are, and refused: {reason}. Its codes are good for a short time and once. "
        "Start the sign-in again.",
        403,
    )


async def _hand_back(sender: Sender, sign_in: SignInUnderWay, token: str) -> None:
    """Revoke a token that nobody wanted, as far as the provider lets us (RFC 7009)."""
    if sign_in.revocation_endpoint is None:
        return
    answer = await sender.send(Sending(sign_in.revocation_endpoint, "POST", form={"token": token}))
    if isinstance(answer, FetchFailed) or answer.status != 200:
        log.info("a provider did not revoke an unneeded token", provider=provider_name(sign_in.authorization_endpoint))


def provider_name(url: str) -> str:
    """How a provider is called in messages: by its host and port."""
    return urlsplit(url).netloc.rpartition("@")[2]


CLIENT_PATH = "/client"
CALLBACK_PATH = "/sign-in/callback"
SCOPE = "profile"
"""All that is asked for: who somebody is, and how they want to be called. Some older servers refuse an empty scope."""

_CODE = re.compile(r"[\x20-\x7e]{1,4096}")


@dataclass(frozen=True, slots=True)
class ProviderRedirect:
    """The browser is to be sent to the person's provider."""

    url: str


@dataclass(frozen=True, slots=True)
class SignInHere:
    """The person's own page names this very server: they sign in here, without HTTP to ourselves."""

    me: str


@dataclass(frozen=True, slots=True)
class SignedInPerson:
    """Somebody has signed in as a user of ours. `how` is the way in words; `next` a path of ours, or empty; `new`: the
    account was made by that.
    """

    user: str
    me: str
    how: str
    next: str
    new: bool = False


class SignInClient:
    """The client's side of a sign-in. `private`: servers may lie in private networks and speak http."""

    def __init__(
        self,
        pending: PendingStore,
        profiles: Profiles,
        sender: Sender,
        admission: Admission,
        limits: SignInLimits,
        *,
        private: bool = False,
    ) -> None:
        self._pending = pending
        self._profiles = profiles
        self._sender = sender
        self._admission = admission
        self._limits = limits
        self._private = private

    async def begin(
        self, entered: str, *, base: str, browser: str, next_: str, address: str
    ) -> ProviderRedirect | SignInHere:
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
            return SignInHere(me)
        await self._limits.enter(me, address)
        async with self._limits.place(me, address, site_of_me(me)):
            profile = await self._profile(me)
        authorization = self._authorization_of(profile)
        if is_own(authorization, base):
            metrics.SIGN_INS.labels("local").inc()
            return SignInHere(me)
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
        await self._limits.leave(me, size_of(sign_in))
        await self._pending.put(_digest(state), sign_in)
        metrics.SIGN_INS.labels("begun").inc()
        return ProviderRedirect(_request(sign_in, state, _verifier(browser, state)))

    async def finish(
        self, answer: Iterable[tuple[str, str]], *, browser: str, now: float, address: str = ""
    ) -> SignedInPerson:
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
        return SignedInPerson(verdict.user, verdict.me, f"with {who}", next_, verdict.new)

    async def _arrive(
        self, answer: Iterable[tuple[str, str]], browser: str, now: float, address: str
    ) -> tuple[Admitted | Refusal, str, str]:
        """Whether somebody who was confirmed may come in; the provider's name; and where to go afterwards."""
        said = answer_parameters(answer)
        state = said.get("state", "")
        sign_in = await self._taken(state, browser)
        who = provider_name(sign_in.authorization_endpoint)
        check_issuer(sign_in, said.get("iss"), who)
        if "error" in said:
            raise refused_answer(said, who)
        code = said.get("code", "")
        if not _CODE.fullmatch(code):
            raise SignInFailed("The provider sent no code", f"{who} sent you back without the code it owes. {AGAIN}")
        redemption = CodeRedemption(
            code, sign_in.base + CLIENT_PATH, sign_in.base + CALLBACK_PATH, _verifier(browser, state)
        )
        async with self._limits.place(sign_in.me, address, who):
            found = await redeem(self._sender, sign_in, redemption, now, private=self._private)
            profile = await self._confirmed(sign_in, found.me, who)
            verdict = await self._admission.admit(proven(sign_in.me, found.me, profile, found.profile))
        if isinstance(verdict, Refusal):
            log.info("a sign-in by somebody who is not a user", provider=who, me=found.me)
        return verdict, who, sign_in.next

    async def _profile(self, me: str) -> Profile:
        try:
            return await self._profiles.discover(me, max_age=PROFILE_RECENT)
        except (InvalidRequest, ProfileError) as problem:
            raise profile_failed(problem, me) from None

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
                f"{profile.page} names the provider {provider_name(found)} without https, so anybody on the way could "
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
            raise profile_failed(problem, returned) from None


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
