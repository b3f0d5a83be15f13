"""What a provider's answer says, before anybody is asked anything; and what people are told when it is no use. Pure.

Answers: https://indieauth.spec.indieweb.org/#authorization-response, RFC 6749 (4.1.2) and RFC 9207.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable
from urllib.parse import urlsplit

from microsub.errors import InvalidRequest, ProfileError, ProfileUnreachable, SignInFailed
from microsub.identity.protocol.identifiers import shown
from microsub.identity.provider.own import is_own
from microsub.identity.store.pending import SignInUnderWay

_SINGLE = ("code", "state", "iss", "error", "error_description")

AGAIN = "Start the sign-in again."


def single(answer: Iterable[tuple[str, str]]) -> dict[str, str]:
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


def refused(said: dict[str, str], who: str) -> SignInFailed:
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


def page_failed(problem: InvalidRequest | ProfileError, me: str) -> SignInFailed:
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
