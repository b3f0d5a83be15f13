"""A feed's subscriptions at its hub, and the next step. Pure.

Spec: https://www.w3.org/TR/websub/#subscribing-and-unsubscribing. A feed has one callback for each subscription
request. A renewal has a new callback and a new secret, and the earlier callbacks stay valid until the new one is
verified: a failed renewal breaks nothing that works. All times are Unix seconds.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from microsub.base.clock import DAY, HOUR
from microsub.base.digests import is_same, new_secret
from microsub.feeds import topic_of
from microsub.model.moments import number

if TYPE_CHECKING:
    from microsub.feeds import FeedRecord


WANTED_LEASE = 10 * DAY
"""The lease that is asked for; the hub's answer counts."""
LEASES = (HOUR, 14 * DAY)
"""Bounds of a lease, whatever the hub grants."""
DEFAULT_LEASE = DAY
"""For a hub that omits the lease, although the spec requires it."""

LATE = 600.0
"""For this long after a lease ends, deliveries are still accepted: clocks differ."""

PENDING = DAY
"""For this long, a hub may verify a request."""

FIRST_PAUSE, LONGEST_PAUSE = 900.0, 7 * DAY
"""Between two requests for an unverified subscription: doubled each time."""

END_AGAIN = 6 * HOUR
"""Between two requests to end a subscription."""

SPARING = 600.0
BURST = HOUR
"""Deliveries of a feed use no more processor time than polls may (`polling.plan.SPARING`), an hour's share at once."""

_TOKEN = re.compile(r"([0-9]{1,19})\.([A-Za-z0-9_-]{43})")
_SIGNATURE = re.compile(r"(sha(?:1|256|384|512))=([0-9a-f]{40,128})", re.IGNORECASE)
_LONGEST_URL = 2048


@dataclass(frozen=True, slots=True)
class WantedSubscription:
    """The hub that a feed names, and the topic to ask it for."""

    hub: str
    topic: str

    def __str__(self) -> str:
        return f"{self.hub} {self.topic}"


@dataclass(frozen=True, slots=True)
class Callback:
    """An address on this server that one hub was given, with the secret that signs deliveries to it.

    `until` is the end of the lease once the hub has verified; `ending` is when the hub was last asked to end it.
    """

    token: str = field(repr=False)
    secret: str = field(repr=False)
    hub: str
    topic: str
    asked: float
    verified: float | None = None
    until: float | None = None
    ending: float | None = None

    @property
    def subscription(self) -> WantedSubscription:
        """The hub and topic that it was created for."""
        return WantedSubscription(self.hub, self.topic)

    @property
    def renewal(self) -> float:
        """The time when a new callback should replace it: at half the lease."""
        return ((self.verified or 0.0) + (self.until or 0.0)) / 2

    def is_live(self, now: float) -> bool:
        """Whether it is verified and its lease hasn't ended."""
        return self.until is not None and now < self.until

    def takes_deliveries(self, now: float) -> bool:
        """Whether deliveries to it are accepted."""
        return self.until is not None and now < self.until + LATE

    def to_json(self) -> str:
        """All fields but the token, which is the name it is stored under."""
        return json.dumps(
            {name: value for name, value in asdict(self).items() if name != "token" and value is not None}
        )

    @classmethod
    def of(cls, token: str, text: str) -> Callback:
        """Read a stored callback. Raises ValueError and TypeError."""
        return cls(token, **json.loads(text))


@dataclass(frozen=True, slots=True)
class FeedSubscriptions:
    """The stored state of a feed's subscriptions.

    `to` is the wanted subscription that was last requested, '' for none. `tries` counts requests since the last
    verification; before `next` none is sent. `spent` is until when the feed's share of processor time is used up.
    """

    callbacks: tuple[Callback, ...] = ()
    to: str = ""
    tries: int = 0
    next: float = 0.0
    spent: float = 0.0

    def find(self, token: str) -> Callback | None:
        """The callback with that token; compared in constant time."""
        found = [one for one in self.callbacks if is_same(one.token, token)]
        return found[0] if found else None

    def effective(self, now: float) -> Callback | None:
        """The newest verified callback whose lease is in force, and that isn't being ended."""
        live = [one for one in self.callbacks if one.is_live(now) and one.ending is None]
        return max(live, key=lambda one: one.verified or 0.0, default=None)


def wanted_subscription(feed: FeedRecord) -> WantedSubscription | None:
    """The wanted subscription of `feed`; None if it names no hub, has no topic, or is gone."""
    topic = topic_of(feed)
    if (
        feed.gone
        or not feed.hub
        or topic is None
        or " " in feed.hub + topic
        or max(len(feed.hub), len(topic)) > _LONGEST_URL
    ):
        return None
    return WantedSubscription(feed.hub, topic)


def new_callback(wanted: WantedSubscription, now: float) -> Callback:
    """A callback that can't be guessed: 256 bits each for its address and its secret."""
    return Callback(new_secret(), new_secret(), wanted.hub, wanted.topic, now)


def address(feed_id: str, token: str) -> str:
    """The last part of a callback's path."""
    return f"{feed_id}.{token}"


def parted(text: str) -> tuple[str, str] | None:
    """The feed id and token in an `address`; None if it is invalid."""
    match = _TOKEN.fullmatch(text)
    return None if match is None else (match[1], match[2])


# --- the next step ------------------------------------------------------------------------------------------------


class PushPlan(NamedTuple):
    """The next steps for a feed's subscriptions.

    `over` are callbacks to be forgotten, `end` those whose hub is asked to end them. `ask`: the hub is asked for a
    subscription now. `look` is when to look again, None for never.
    """

    over: tuple[Callback, ...] = ()
    end: tuple[Callback, ...] = ()
    ask: bool = False
    look: float | None = None


def plan_push(subscriptions: FeedSubscriptions, wanted: WantedSubscription | None, now: float) -> PushPlan:
    """Decide what to do about a feed's subscriptions if this one is `wanted`; None: it needs none."""
    current = subscriptions.effective(now)
    if current is not None and current.subscription != wanted:
        current = None if wanted is None else _newest(subscriptions, wanted, now)
    over = tuple(one for one in subscriptions.callbacks if _is_over(one, wanted, current, now))
    surplus = [one for one in subscriptions.callbacks if one.is_live(now) and _is_surplus(one, wanted, current)]
    end = tuple(one for one in surplus if one.ending is None or not one.ending <= now < one.ending + END_AGAIN)
    looks = [now + END_AGAIN for _ in surplus]
    if wanted is None:
        return PushPlan(over, end, look=min(looks, default=None))
    wait = 0.0 if subscriptions.to != str(wanted) else subscriptions.next
    if wait > now + LONGEST_PAUSE:
        wait = now  # a clock was ahead
    start = wait if current is None else max(wait, current.renewal)
    looks.append(now + FIRST_PAUSE if start <= now else start)
    return PushPlan(over, end, start <= now, min(looks))


def _newest(subscriptions: FeedSubscriptions, wanted: WantedSubscription, now: float) -> Callback | None:
    return FeedSubscriptions(tuple(one for one in subscriptions.callbacks if one.subscription == wanted)).effective(now)


def _is_over(one: Callback, wanted: WantedSubscription | None, current: Callback | None, now: float) -> bool:
    if one.until is not None:
        return not one.takes_deliveries(now)
    # A hub may still verify this one; an unverified callback needs no unsubscribe.
    superseded = current is not None and one.asked < (current.verified or 0.0)
    return one.subscription != wanted or superseded or not one.asked - DAY < now < one.asked + PENDING


def _is_surplus(one: Callback, wanted: WantedSubscription | None, current: Callback | None) -> bool:
    """Whether another callback has replaced it, or none is wanted; until then it stays."""
    return one.ending is not None or wanted is None or (current is not None and one.token != current.token)


def pause_after(tries: int, current: Callback | None, now: float) -> float:
    """Seconds until the next request to a hub that hasn't verified; shorter when a lease runs out."""
    pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(tries, 16))
    if current is None or current.until is None:
        return pause
    return min(pause, max(60.0, (current.until - now) / 4))


# --- input from hubs ----------------------------------------------------------------------------------------------


def lease_of(said: str | None) -> float:
    """The lease in seconds that counts, from `hub.lease_seconds` as the hub sends it."""
    seconds = number(said.encode()) if said and re.fullmatch(r"[0-9]{1,12}", said) else None
    return DEFAULT_LEASE if seconds is None else min(LEASES[1], max(LEASES[0], seconds))


def is_asked_for(callback: Callback, mode: str, topic: str) -> bool:
    """Whether a hub's verification matches the request to it (WebSub, 5.3)."""
    if not is_same(topic, callback.topic):
        return False
    return mode == ("subscribe" if callback.ending is None else "unsubscribe")


def signed(body: bytes, secret: str, header: str) -> bool:
    """Whether `X-Hub-Signature` (WebSub, 7.1) matches the raw body: `sha256=…` or another SHA."""
    match = _SIGNATURE.fullmatch(header.strip())
    if match is None:
        return False
    expected = hmac.new(secret.encode(), body, getattr(hashlib, match[1].lower())).hexdigest()
    return is_same(expected, match[2].lower())


def spend(spent: float, seconds: float, now: float) -> float:
    """The time until which the share is used up, after a delivery that took `seconds` of processor time."""
    return max(now, min(spent, now + BURST)) + seconds * SPARING


def has_share(spent: float, now: float) -> bool:
    """Whether a feed's deliveries may use more processor time now."""
    return spent <= now + BURST or spent > now + 7 * DAY


# --- health -------------------------------------------------------------------------------------------------------


def health_of(subscriptions: FeedSubscriptions, feed: FeedRecord, why: str, now: float) -> Mapping[str, str | None]:
    """The record's fields for the state of a feed's subscription; `why` says why it isn't pushed.

    Trust in deliveries ends with the subscription they came by.
    """
    current = subscriptions.effective(now)
    if current is None:
        return {"push": None, "push_until": None, "push_why": why or None, "push_to": subscriptions.to or None}
    is_trusted = feed.extra.get("push") == "1" and current.subscription == wanted_subscription(feed)
    return {
        "push": "1" if is_trusted else None,
        "push_until": f"{current.until:.3f}",
        "push_why": None if is_trusted else why or "subscribed; the hub has delivered nothing yet",
        "push_to": subscriptions.to or None,
    }


def without(subscriptions: FeedSubscriptions, gone: Sequence[Callback]) -> tuple[Callback, ...]:
    """The callbacks without those in `gone`."""
    tokens = {one.token for one in gone}
    return tuple(one for one in subscriptions.callbacks if one.token not in tokens)
