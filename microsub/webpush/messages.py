"""Messages about new posts to devices: limited in number, and only while posts are unread.

A worker looks at each device four times a minute, by its user's order of arrival (`timelines.sync.arrivals`); users
without a device cost nothing. A device's progress is written before its message is sent: a crash can lose a message,
but not duplicate it. The count in a message grows until its user reads, so the last message replaces all earlier ones,
at the push service (`Topic`) and on the screen.
"""

from __future__ import annotations

import gettext
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import orjson
import structlog

from microsub import webpush
from microsub.accounts import VISIT_NOTED
from microsub.base.bounded_cache import BoundedCache
from microsub.base.clock import DAY
from microsub.base.metrics import DEVICE_MESSAGES
from microsub.base.periodic import RoundTiming, run_periodically
from microsub.base.texts import N_
from microsub.base.urls import host_of
from microsub.fetch import Answered, FetchFailed, RestingServers, Sender, Sending, SendLimits, retry_after
from microsub.formats.wire import post_title
from microsub.model.reader import NOTIFICATIONS, Channel
from microsub.redis.replies import text
from microsub.timelines import NEVER_NAMED, keep_order, last_position, unread_after
from microsub.webpush.devices import DUE, Device, Devices, DeviceState
from microsub.work import calendar_of

if TYPE_CHECKING:
    from microsub.accounts import Activity, Sessions
    from microsub.posts import Items
    from microsub.redis.protocol import Redis
    from microsub.timelines import Channels

log = structlog.get_logger(__name__)

BETWEEN = 2.0
"""Seconds between two rounds over the devices that are due."""
LOOK = 15.0
"""Seconds until the next look at a device to which nothing is sent."""
PAUSE = 300.0
"""Minimum seconds between two messages to a device."""
LONGEST_PAUSE = 6 * 3600.0
GIVEN_UP = 16
"""Consecutive refused messages after which a device is removed: three days."""
MOST_COUNTED = 100
"""Maximum number of posts that a message counts."""
AT_ONCE = 32
"""Devices that are processed together."""
LIMITS = SendLimits(total=5.0, body=0, redirects=-1)
_LONGEST_NAMES = 200
_MOST_USERS = 10_000
_MINUTES = 600

Outcome = Literal["delivered", "gone", "failed", "given_up"]


@dataclass(frozen=True, slots=True)
class PushMessage:
    """A message that a device shows, and the path that it opens. `is_test`: its user waits for it."""

    title: str
    body: str
    path: str = ""
    is_test: bool = False

    def encoded(self) -> bytes:
        """The message in the form that the service worker reads."""
        said = {"title": self.title, "body": self.body, "path": self.path, "test": self.is_test}
        return orjson.dumps(said)


class DeviceMessages:
    """Sends messages about new posts to devices. Any number of workers may run it.

    `texts` returns the page texts of a language; `contact` is our URL for push services, or empty.
    """

    def __init__(
        self,
        redis: Redis,
        sessions: Sessions,
        activity: Activity,
        channels: Channels,
        items: Items,
        sender: Sender,
        texts: Callable[[str], gettext.NullTranslations],
        *,
        contact: str = "",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._redis = redis
        self._devices = Devices(redis)
        self._sessions = sessions
        self._activity = activity
        self._channels = channels
        self._items = items
        self._sender = sender
        self._texts = texts
        self._contact = contact
        self._clock = clock
        self._due = calendar_of(redis, DUE)
        self._resting = RestingServers(clock)
        self._wishes: BoundedCache[str, tuple[bytes, Mapping[tuple[str, str], bool]]] = BoundedCache(_MOST_USERS)

    async def run_forever(self, pace: RoundTiming) -> None:
        """Look at devices repeatedly, until cancelled."""
        await run_periodically(self.look_at_due, "devices", pace, BETWEEN)

    async def look_at_due(self, now: float) -> int:
        """Look at the devices that are due; returns their number."""
        return await self._due.visit(now, self._look, at_once=AT_ONCE)

    async def _look(self, member: str) -> float | None:
        """Look at one device; returns when to look again, None for never."""
        user, _, id_ = member.partition(" ")
        found, now = await self._devices.look(user, id_), self._clock()
        if found is None:
            return None
        device, state, newest, is_test_asked = found
        if state is None:  # posts from before the device was added aren't new
            await keep_order(self._redis, self._items, user, now)
            newest = await last_position(self._redis, user)
            state = DeviceState(newest, newest)
            await self._devices.note(user, id_, state)
        if rest := self._resting.left(device.address):
            return now + rest
        if is_test_asked:
            return await self._test(user, device, state)
        if newest <= state.place:
            return now + LOOK
        return await self._tell(user, device, newest, state)

    async def _tell(self, user: str, device: Device, newest: int, state: DeviceState) -> float | None:
        """Announce unread posts that arrived since the last look; later if the user is reading in that browser."""
        now = self._clock()
        session = await self._sessions.still_open(user, device.id)
        if session is None:
            await self._devices.remove(user, [device.id])
            return None
        if now - session.seen < VISIT_NOTED:
            return now + LOOK
        seen = (await self._activity.last_seen([user])).get(user, 0.0)
        told = replace(state, place=newest, base=state.place if seen > state.sent else state.base)
        news = await self._news(user, device, told.base, state.place)
        await self._devices.note(user, device.id, told)
        if news is None:
            return now + LOOK
        return await self._send(user, device, await self._message(device, *news), told, before=state)

    async def _test(self, user: str, device: Device, state: DeviceState) -> float | None:
        now = self._clock()
        await self._devices.forget_test(user, device.id)
        if await self._sessions.still_open(user, device.id) is None:
            await self._devices.remove(user, [device.id])
            return None
        said = self._texts(device.language).gettext
        message = PushMessage(said(N_("It works")), said(N_("New posts will appear like this.")), is_test=True)
        again = await self._send(user, device, message, state, before=state)
        return None if again is None else now + LOOK

    # --- what there is to tell

    async def _news(self, user: str, device: Device, base: int, place: int) -> tuple[list[str], list[Channel]] | None:
        """The unread posts after `base` in the device's channels, the newest first, and the channels that have them.

        None if none of them arrived after `place`.
        """
        names, _ = await self._channels.counts(user)
        wishes, usual = await self._wishes_of(user), set(device.channels)
        asked = usual | {uid for (uid, _), wanted in wishes.items() if wanted}
        chosen = [channel for channel in names.channels if channel.uid in asked]
        uids = [channel.uid for channel in chosen]
        places, unread = await unread_after(self._redis, user, uids, base, MOST_COUNTED + 1)
        if wishes and places:
            rows = await self._items.fields([*places], ["feed"])
            feeds = {one: text(feed or b"") for one, (feed,) in zip(places, rows, strict=True)}
            unread = [
                {one for one in part if wishes.get((uid, feeds.get(one, "")), uid in usual)}
                for uid, part in zip(uids, unread, strict=True)
            ]
        posts = [one for one in places if any(one in part for part in unread)]
        if all(places[one] <= place for one in posts):
            return None
        return posts, [channel for channel, part in zip(chosen, unread, strict=True) if part]

    async def _wishes_of(self, user: str) -> Mapping[tuple[str, str], bool]:
        """The user's settings `notify`, by channel and feed."""
        number = await self._channels.number_of_names(user)
        known = self._wishes.get(user)
        if known is None or known[0] != number:
            follows = (await self._channels.all_subscriptions(user)) if number != NEVER_NAMED else {}
            wishes = {
                (uid, one.feed): one.settings.notify
                for uid, some in follows.items()
                for one in some
                if one.settings.notify is not None
            }
            known = self._wishes[user] = number, wishes
        return known[1]

    async def _message(self, device: Device, posts: Sequence[str], channels: Sequence[Channel]) -> PushMessage:
        texts, count = self._texts(device.language), len(posts)
        names = [one.name if one.uid != NOTIFICATIONS else texts.gettext(one.name) for one in channels]
        listed = ", ".join(names)[:_LONGEST_NAMES]
        path = f"channel/{channels[0].uid}" if len(names) == 1 else ""
        if count == 1:
            (wire,) = await self._items.data(posts)
            title = post_title({"_id": "", **orjson.loads(wire)}) if wire is not None else ""
            return PushMessage(title or listed, listed, path)
        if count > MOST_COUNTED:
            said = texts.gettext(N_("More than %(num)s new posts")) % {"num": MOST_COUNTED}
        else:
            said = texts.ngettext("%(num)s new post", "%(num)s new posts", count) % {"num": count}
        return PushMessage(listed, said, path) if len(names) == 1 else PushMessage(said, listed)

    # --- the push service

    async def _send(
        self, user: str, device: Device, message: PushMessage, told: DeviceState, *, before: DeviceState
    ) -> float | None:
        """Send a message; returns when to look again, None if the device is gone."""
        answer, now = await self._sender.send(await self._sending(device, message)), self._clock()
        if isinstance(answer, FetchFailed) and answer.ours:
            await self._devices.note(user, device.id, before)
            return now + LOOK
        if isinstance(answer, FetchFailed) and not answer.lasting:
            self._resting.rest(device.address)
        status = answer.status if isinstance(answer, Answered) else None
        failures = before.failures + 1
        outcome: Outcome = "failed"
        again: float | None = now + _pause(failures, answer, now)
        if status in {404, 410}:
            outcome, again = "gone", None
        elif status is not None and 200 <= status < 300:
            outcome, again = "delivered", now + PAUSE
        elif failures >= GIVEN_UP:
            outcome, again = "given_up", None
        DEVICE_MESSAGES.labels(outcome).inc()
        note = log.debug if outcome == "delivered" else log.info
        note("a device was sent a message", user=user, host=host_of(device.address), end=outcome, status=status)
        if again is None:
            await self._devices.remove(user, [device.id])
        elif outcome == "delivered":
            await self._devices.note(user, device.id, replace(told, sent=now, failures=0, error=""))
        else:
            error = answer.reason if isinstance(answer, FetchFailed) else f"status: {status}"
            await self._devices.note(user, device.id, replace(before, failures=failures, error=error))
        return again

    async def _sending(self, device: Device, message: PushMessage) -> Sending:
        key, now = await self._devices.key(), self._clock()
        headers = [
            ("Content-Encoding", "aes128gcm"),
            ("TTL", str(_MINUTES if message.is_test else DAY)),
            ("Urgency", "high" if message.is_test else "normal"),
            ("Topic", "test" if message.is_test else "new-posts"),
            ("Authorization", key.authorization(device.address, self._contact, now)),
        ]
        body = webpush.encrypted(message.encoded(), *webpush.browser_keys(device.public, device.secret))
        return Sending(
            device.address,
            "POST",
            body=body,
            content_type="application/octet-stream",
            headers=headers,
            accept="*/*",
            limits=LIMITS,
            web_ports=True,
        )


def _pause(failures: int, answer: Answered | FetchFailed, now: float) -> float:
    """Seconds until the next attempt: doubled each time, longer if the push service requires it."""
    headers = answer.headers if isinstance(answer, Answered) else {}
    wished = retry_after(headers.get("retry-after"), now) or 0.0
    return min(LONGEST_PAUSE, max(wished, PAUSE * 2.0 ** (failures - 1)))
