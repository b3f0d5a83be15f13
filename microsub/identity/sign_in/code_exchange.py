"""Redeeming the code that a provider sent along: who has signed in, by the provider's word
(https://indieauth.spec.indieweb.org/#redeeming-the-authorization-code).

Whoever only wants to know who somebody is redeems at the authorization endpoint. Some servers know the token endpoint
alone; where the first says that it takes no such request, the second is asked, and the token that it may give is
handed back at once. It is asked only on the same origin: a page can name the authorization endpoint of one server and
the token endpoint of another, which must not get to see the first one's code.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import urlsplit

import structlog

from microsub.errors import ParseError, SignInFailed
from microsub.fetch import Answered, FetchFailed, Sending
from microsub.identity.protocol.identifiers import identifier
from microsub.identity.protocol.replies import CodeAnswer, read_code_answer, read_error
from microsub.identity.store.pending import SignInUnderWay

log = structlog.get_logger(__name__)

_NOT_THERE = frozenset({404, 405, 501})


class Sender(Protocol):
    """What is needed of `fetch.Fetcher`."""

    async def send(self, sending: Sending) -> Answered | FetchFailed:
        """Send a request; failures are values."""
        ...


@dataclass(frozen=True, slots=True)
class Redemption:
    """What proves that a code is ours to redeem."""

    code: str = field(repr=False)
    client_id: str
    redirect_uri: str
    verifier: str = field(repr=False)


async def redeem(
    sender: Sender, sign_in: SignInUnderWay, redemption: Redemption, now: float, *, private: bool
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
    who = name_of(sign_in.authorization_endpoint)
    answer = await _ask(sender, sign_in.authorization_endpoint, form, who)
    token_endpoint = sign_in.token_endpoint
    if answer.status in _NOT_THERE and token_endpoint and _is_beside(sign_in):
        answer = await _ask(sender, token_endpoint, form, who)
    if answer.status != 200:
        raise _refused(answer, who)
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


async def _ask(sender: Sender, url: str, form: dict[str, str], who: str) -> Answered:
    answer = await sender.send(Sending(url, "POST", form=form))
    if isinstance(answer, FetchFailed):
        raise SignInFailed(
            "The provider doesn't answer",
            f"{who} was asked who you are, and could not be reached: {answer.detail}. Try again in a while.",
            503,
        )
    return answer


def _refused(answer: Answered, who: str) -> SignInFailed:
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
        log.info("a provider kept a token that nobody wanted", provider=name_of(sign_in.authorization_endpoint))


def name_of(url: str) -> str:
    """How a provider is called in messages: by its host and port."""
    return urlsplit(url).netloc.rpartition("@")[2]
