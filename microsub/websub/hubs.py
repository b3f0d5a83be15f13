"""Requests to hubs: subscribe and unsubscribe.

Spec: https://www.w3.org/TR/websub/#subscriber-sends-subscription-request. Publishers name any hub they like, so each
hub's address is checked like any other, and so is each redirect. Callback and secret are sent over https, or to a
network that the admin lists. A hub gets few requests at a time, with pauses; no request waits long for a turn.
"""

from __future__ import annotations

import time
from urllib.parse import urljoin

from microsub.base.metrics import WEBSUB_REQUESTS
from microsub.base.urls import host_of, parts_of
from microsub.fetch import (
    Answered,
    FetchFailed,
    HopError,
    HostPace,
    RequestFailure,
    RestingServers,
    Sender,
    Sending,
    SendLimits,
    retry_after,
)
from microsub.websub.subscriptions import WANTED_LEASE, Callback, address

LIMITS = SendLimits(total=10.0, body=16 * 1024)
REDIRECTS = 5
_AGAIN = frozenset({307, 308})
"""Redirects that keep the method and body (RFC 9110, 15.4); no others are followed."""

PATH = "/websub/"
_LONGEST_REASON = 120


class Hubs:
    """Sends requests to hubs. `base` is this server's public URL.

    A hub that can't be reached gets no requests for a while, so its feeds don't delay others.
    """

    def __init__(self, sender: Sender, base: str) -> None:
        self._sender = sender
        self._base = base
        self._pace = HostPace(at_once=4, interval=0.2, burst=20)
        self._resting = RestingServers()

    async def ask(self, feed_id: str, callback: Callback, mode: str) -> RequestFailure | None:
        """Send `subscribe` or `unsubscribe` for a callback. Returns why the hub didn't accept it, or None.

        A hub's mistakes are returned, never raised.
        """
        form = {
            "hub.callback": f"{self._base}{PATH}{address(feed_id, callback.token)}",
            "hub.mode": mode,
            "hub.topic": callback.topic,
        }
        if mode == "subscribe":
            form |= {"hub.lease_seconds": f"{WANTED_LEASE:.0f}", "hub.secret": callback.secret}
        failure = await self._follow(callback.hub, form)
        end = "accepted" if failure is None else "put_off" if failure.ours else "refused"
        WEBSUB_REQUESTS.labels(mode, end).inc()
        return failure

    async def _follow(self, url: str, form: dict[str, str]) -> RequestFailure | None:
        for _ in range(REDIRECTS + 1):
            try:
                async with self._pace.turn(host_of(url)):
                    self._check_rest(url)
                    answer = await self._send(url, form)
            except HopError as error:
                return RequestFailure(error.detail, ours=True, retry_after=error.retry_after)
            if isinstance(answer, FetchFailed):
                if not answer.ours and not answer.lasting:
                    self._resting.rest(url)
                why = f"the request to the hub failed: {answer.detail}"
                return RequestFailure(why, ours=answer.ours, lasting=answer.lasting)
            location = answer.headers.get("location")
            if answer.status not in _AGAIN or not location:
                return _said(answer)
            try:
                url = urljoin(answer.final_url, location)
            except ValueError:
                return RequestFailure("the hub redirects to an invalid address", lasting=True)
        return RequestFailure(f"the hub redirects more than {REDIRECTS} times", lasting=True)

    def _check_rest(self, url: str) -> None:
        if left := self._resting.left(url):
            raise HopError("busy", f"{host_of(url)} could not be reached a moment ago", left)

    async def _send(self, url: str, form: dict[str, str]) -> Answered | FetchFailed:
        """Send to `url`; over https if it is an http address that must not get secrets."""
        answer = await self._sender.send(Sending(url, "POST", form, accept="*/*", limits=LIMITS))
        if isinstance(answer, FetchFailed) and answer.reason == "blocked" and (secure := _by_https(url)):
            return await self._sender.send(Sending(secure, "POST", form, accept="*/*", limits=LIMITS))
        return answer


def _by_https(url: str) -> str | None:
    try:
        parts = parts_of(url)
        is_plain = parts.scheme.lower() == "http" and parts.port in {None, 80}
    except ValueError:
        return None
    return parts._replace(scheme="https", netloc=parts.netloc.removesuffix(":80")).geturl() if is_plain else None


def _said(answer: Answered) -> RequestFailure | None:
    """Why a hub didn't accept a request, or None: the spec demands 202, older hubs send 204."""
    if 200 <= answer.status < 300:
        return None
    text = " ".join(answer.body.decode("utf-8", "replace").split())[:_LONGEST_REASON]
    plain = (answer.content_type or "").startswith("text/plain")
    why = f"the hub answered {answer.status}" + (f": {text}" if plain and text else "")
    seconds = retry_after(answer.headers.get("retry-after"), time.time())
    return RequestFailure(why, lasting=400 <= answer.status < 500 and answer.status != 429, retry_after=seconds)
