"""Subscriptions at our hub: what is asked, what holds, what comes next. Pure.

Spec: https://www.w3.org/TR/websub/#subscribing-and-unsubscribing. A subscription is a callback and a topic, letter for
letter as the subscriber wrote them. What is asked changes nothing before it is verified. All times are Unix seconds.
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

from microsub.errors import InvalidRequest
from microsub.kit.digests import short_digest
from microsub.kit.urls import host_of, is_usable, parts_of

HOUR, DAY = 3600.0, 86_400.0
LEASES = (HOUR, 14 * DAY)
"""Bounds of a lease, whatever is asked for."""
LEASE_UNSAID = 10 * DAY
"""Where none is asked for."""

LONGEST_URL = 2048
LONGEST_SECRET = 199
"""Bytes: the spec has "less than 200"."""

RETRIES = (10.0, 30.0, 90.0, 270.0, 800.0, 2400.0)
"""Seconds until a delivery that failed is tried again, one time after the other: an hour in all."""

_CHARACTERS = re.compile(r"[\x21-\x7e]+")

Mode = Literal["subscribe", "unsubscribe"]


@dataclass(frozen=True, slots=True)
class SubscriptionRequest:
    """What a subscriber asks for. `lease` is in seconds, `secret` empty for none.

    `version` is the one that the topic had when this was asked: what comes later is delivered. `nonce` tells two equal
    requests apart.
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
        """The subscription that is meant."""
        return subscription_id(self.topic, self.callback)

    def to_json(self) -> str:
        """As it is kept until it is verified."""
        return json.dumps(asdict(self))

    @classmethod
    def of(cls, text: str) -> SubscriptionRequest:
        """The request read back. Raises ValueError and TypeError."""
        return cls(**json.loads(text))

    def at_version(self, version: str) -> SubscriptionRequest:
        """The request that was made when the topic had that version."""
        return replace(self, version=version)

    def challenge(self, text: str) -> str:
        """The address that is asked whether the subscriber meant it (5.3)."""
        params = {"hub.mode": self.mode, "hub.topic": self.topic, "hub.challenge": text}
        if self.mode == "subscribe":
            params["hub.lease_seconds"] = f"{self.lease:.0f}"
        return with_params(self.callback, params)


@dataclass(frozen=True, slots=True)
class HubSubscription:
    """A verified subscription until the end of its lease.

    `sent` is the version of the topic that was delivered, or given up, last; `tries` counts how often the one after it
    has failed.
    """

    callback: str
    topic: str
    until: float
    sent: str
    tries: int = 0
    secret: str = field(default="", repr=False)

    def to_json(self) -> str:
        """As it is kept."""
        return json.dumps(asdict(self))

    @classmethod
    def of(cls, text: str) -> HubSubscription:
        """The subscription read back. Raises ValueError and TypeError."""
        return cls(**json.loads(text))

    def delivered(self, version: str) -> HubSubscription:
        """The subscription once the callback has that version."""
        return replace(self, sent=version, tries=0)

    def signature(self, body: bytes) -> str | None:
        """`X-Hub-Signature` of a delivery (7.1); None where the subscriber gave no secret."""
        if not self.secret:
            return None
        return "sha256=" + hmac.new(self.secret.encode(), body, hashlib.sha256).hexdigest()

    def denial(self, reason: str) -> str:
        """The address by which the subscriber learns that the subscription has ended (5.2)."""
        return with_params(self.callback, {"hub.mode": "denied", "hub.topic": self.topic, "hub.reason": reason})


def subscription_id(topic: str, callback: str) -> str:
    """Digests of the topic, of the callback's host, and of the callback."""
    return ".".join(short_digest(part.encode(), 12) for part in (topic, host_of(callback), callback))


def verified(request: SubscriptionRequest, before: HubSubscription | None, now: float) -> HubSubscription:
    """The subscription that a verified request makes, instead of the one of `before`.

    What that one was not yet delivered still is.
    """
    sent = request.version if before is None else before.sent
    return HubSubscription(request.callback, request.topic, now + request.lease, sent, secret=request.secret)


def after_failure(subscription: HubSubscription, version: str) -> tuple[HubSubscription, float | None]:
    """The subscription after a delivery that failed, and the seconds until it is tried again.

    None: this version is given up; the subscription waits for the next one.
    """
    if subscription.tries >= len(RETRIES):
        return subscription.delivered(version), None
    return replace(subscription, tries=subscription.tries + 1), RETRIES[subscription.tries]


def with_params(callback: str, params: Mapping[str, str]) -> str:
    """The callback with its own query as it stands, and ours behind it (5.3)."""
    base, joint = callback, "&"
    if "?" not in callback:
        joint = "?"
    elif callback.endswith(("?", "&")):
        joint = ""
    return f"{base}{joint}{urlencode(params)}"


# --- what is asked ------------------------------------------------------------------------------------------------


def request_of(form: Mapping[str, str], nonce: str) -> SubscriptionRequest:
    """The request in a form; parameters that nobody knows are ignored (5.1). Raises InvalidRequest."""
    mode = form.get("hub.mode", "")
    if mode not in {"subscribe", "unsubscribe"}:
        raise InvalidRequest("'hub.mode' can't be used: expected subscribe, unsubscribe or publish")
    secret = form.get("hub.secret", "")
    if len(secret.encode("utf-8", "replace")) > LONGEST_SECRET:
        raise InvalidRequest(f"'hub.secret' is too long: expected at most {LONGEST_SECRET} bytes")
    callback, topic = _callback(form.get("hub.callback", "")), _topic(form.get("hub.topic", ""))
    lease = granted(form.get("hub.lease_seconds", ""))
    return SubscriptionRequest("subscribe" if mode == "subscribe" else "unsubscribe",
                               callback, topic, lease, nonce, secret=secret)  # fmt: skip


def granted(asked: str) -> float:
    """The lease in seconds that is granted where somebody asks for that."""
    if not re.fullmatch(r"[0-9]{1,12}", asked):
        return LEASE_UNSAID
    return min(LEASES[1], max(LEASES[0], float(asked)))


def _callback(text: str) -> str:
    if len(text) > LONGEST_URL or not _CHARACTERS.fullmatch(text) or not is_usable(text):
        raise InvalidRequest(
            f"'hub.callback' can't be used: expected an http or https URL of at most {LONGEST_URL} letters"
        )
    if "#" in text or "@" in parts_of(text).netloc:
        raise InvalidRequest("'hub.callback' can't be used: it has a fragment, a user or a password")
    return text


def _topic(text: str) -> str:
    if len(text) > LONGEST_URL or not _CHARACTERS.fullmatch(text):
        raise InvalidRequest(
            f"'hub.topic' can't be used: expected the URL of a topic, of at most {LONGEST_URL} letters"
        )
    return text
