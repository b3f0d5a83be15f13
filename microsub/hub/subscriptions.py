"""Subscriptions at our hub: requests, verified subscriptions, and the next step. Pure.

Spec: https://www.w3.org/TR/websub/#subscribing-and-unsubscribing. A subscription is a callback and a topic, exactly as
the subscriber wrote them. A request changes nothing until it is verified. All times are Unix seconds.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Literal
from urllib.parse import urlencode

from microsub.base.clock import DAY, HOUR
from microsub.base.digests import short_digest
from microsub.base.errors import InvalidRequest
from microsub.base.plaintext import shown
from microsub.base.urls import host_of, is_usable, parts_of
from microsub.fetch.network import WEB_PORTS, port_problem

LEASES = (HOUR, 14 * DAY)
"""Minimum and maximum seconds of a lease."""
DEFAULT_LEASE = 10 * DAY
"""Seconds of the lease if the request names none."""

LONGEST_URL = 2048
LONGEST_SECRET = 199
"""Bytes: the spec has "less than 200"."""

RETRIES = (10.0, 30.0, 90.0, 270.0, 800.0, 2400.0)
"""Seconds before each retry of a failed delivery: an hour in total."""

_CHARACTERS = re.compile(r"[\x21-\x7e]+")

Mode = Literal["subscribe", "unsubscribe"]


@dataclass(frozen=True, slots=True)
class SubscriptionRequest:
    """A subscriber's request. `lease` is in seconds, `secret` empty for none.

    `version` is the topic's version at the time of the request: later ones are delivered. `nonce` distinguishes equal
    requests.
    """

    mode: Mode
    callback: str
    topic: str
    lease: float
    nonce: str
    version: str = ""
    secret: str = field(default="", repr=False)

    @property
    def id(self) -> str:
        """The id of the subscription."""
        return subscription_id(self.topic, self.callback)

    def to_json(self) -> str:
        """The request as it is stored until it is verified."""
        return json.dumps(asdict(self))

    @classmethod
    def of(cls, text: str) -> SubscriptionRequest:
        """Read a stored request. Raises ValueError and TypeError."""
        return cls(**json.loads(text))

    def at_version(self, version: str) -> SubscriptionRequest:
        """The request with the topic's version at that time."""
        return replace(self, version=version)

    def challenge(self, text: str) -> str:
        """The URL that verifies the subscriber's intent (5.3)."""
        params = {"hub.mode": self.mode, "hub.topic": self.topic, "hub.challenge": text}
        if self.mode == "subscribe":
            params["hub.lease_seconds"] = f"{self.lease:.0f}"
        return with_params(self.callback, params)


@dataclass(frozen=True, slots=True)
class HubSubscription:
    """A verified subscription until the end of its lease.

    `sent` is the version of the topic that was last delivered, or given up; `tries` counts the failed deliveries of the
    next one.
    """

    callback: str
    topic: str
    until: float
    sent: str
    tries: int = 0
    secret: str = field(default="", repr=False)

    def to_json(self) -> str:
        """The subscription as it is stored."""
        return json.dumps(asdict(self))

    @classmethod
    def of(cls, text: str) -> HubSubscription:
        """Read a stored subscription. Raises ValueError and TypeError."""
        return cls(**json.loads(text))

    def delivered(self, version: str) -> HubSubscription:
        """The subscription after the delivery of that version."""
        return replace(self, sent=version, tries=0)

    def signature(self, body: bytes) -> str | None:
        """`X-Hub-Signature` of a delivery (7.1); None if the subscriber gave no secret."""
        if not self.secret:
            return None
        return "sha256=" + hmac.new(self.secret.encode(), body, hashlib.sha256).hexdigest()

    def denial(self, reason: str) -> str:
        """The URL that notifies the subscriber of the subscription's end (5.2)."""
        return with_params(self.callback, {"hub.mode": "denied", "hub.topic": self.topic, "hub.reason": reason})


def subscription_id(topic: str, callback: str) -> str:
    """Digests of the topic, of the callback's host, and of the callback."""
    return ".".join(short_digest(part.encode(), 12) for part in (topic, host_of(callback), callback))


def verified(request: SubscriptionRequest, before: HubSubscription | None, now: float) -> HubSubscription:
    """The subscription that a verified request creates; it replaces `before`.

    Undelivered changes of the earlier one are still delivered.
    """
    sent = request.version if before is None else before.sent
    return HubSubscription(request.callback, request.topic, now + request.lease, sent, secret=request.secret)


def after_failure(subscription: HubSubscription, version: str) -> tuple[HubSubscription, float | None]:
    """The subscription after a failed delivery, and the seconds until the retry.

    None: this version is given up; the subscription waits for the next one.
    """
    if subscription.tries >= len(RETRIES):
        return subscription.delivered(version), None
    return replace(subscription, tries=subscription.tries + 1), RETRIES[subscription.tries]


def with_params(callback: str, params: Mapping[str, str]) -> str:
    """The callback with its own query unchanged, followed by ours (5.3)."""
    base, joint = callback, "&"
    if "?" not in callback:
        joint = "?"
    elif callback.endswith(("?", "&")):
        joint = ""
    return f"{base}{joint}{urlencode(params)}"


# --- requests -----------------------------------------------------------------------------------------------------


def request_of(form: Mapping[str, str], nonce: str, *, any_port: bool) -> SubscriptionRequest:
    """Read the request in a form; unknown parameters are ignored (5.1). Raises InvalidRequest.

    `any_port`: callbacks may be at other ports than 80 and 443.
    """
    mode = form.get("hub.mode", "")
    if mode not in {"subscribe", "unsubscribe"}:
        raise InvalidRequest("'hub.mode' can't be used: expected 'subscribe', 'unsubscribe' or 'publish'")
    secret = form.get("hub.secret", "")
    if len(secret.encode("utf-8", "replace")) > LONGEST_SECRET:
        raise InvalidRequest(f"'hub.secret' is too long: expected at most {LONGEST_SECRET} bytes")
    callback, topic = _callback(form.get("hub.callback", ""), any_port), _topic(form.get("hub.topic", ""))
    lease = granted(form.get("hub.lease_seconds", "") if mode == "subscribe" else "")
    return SubscriptionRequest("subscribe" if mode == "subscribe" else "unsubscribe",
                               callback, topic, lease, nonce, secret=secret)  # fmt: skip


def granted(asked: str) -> float:
    """The lease in seconds that is granted for a requested one. Raises InvalidRequest."""
    if not asked:
        return DEFAULT_LEASE
    if not re.fullmatch(r"[0-9]{1,10}", asked) or not int(asked):
        text = f"'hub.lease_seconds' can't be '{shown(asked)}': expected a whole number from 1 with at most ten digits"
        raise InvalidRequest(text)
    return min(LEASES[1], max(LEASES[0], float(asked)))


def _callback(text: str, any_port: bool) -> str:
    if len(text) > LONGEST_URL or not _CHARACTERS.fullmatch(text) or not is_usable(text):
        raise InvalidRequest(
            f"'hub.callback' can't be used: expected an http or https URL of at most {LONGEST_URL} characters"
        )
    if "#" in text or "@" in parts_of(text).netloc:
        raise InvalidRequest("'hub.callback' can't be used: expected a URL without fragment, user name and password")
    port = parts_of(text).port
    problem = port_problem(port) if port is not None else None
    if problem is None and port not in {None, *WEB_PORTS} and not any_port:
        problem = f"port {port} can't be used: expected 80 or 443"
    if problem is not None:
        raise InvalidRequest(f"'hub.callback': {problem}")
    return text


def _topic(text: str) -> str:
    if len(text) > LONGEST_URL or not _CHARACTERS.fullmatch(text):
        raise InvalidRequest(
            f"'hub.topic' can't be used: expected the URL of a topic, of at most {LONGEST_URL} characters"
        )
    return text
