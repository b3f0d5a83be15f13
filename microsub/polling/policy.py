"""How politely and how often: the numbers behind the schedule, from the instance's settings. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from microsub.configuration.model import InstanceSettings
from microsub.formats.entry_id import canonical_feed_url

HOUR = 3600.0
DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class PollPolicy:
    """Bounds of the time between two polls of one feed, in seconds.

    `daily` is the interval of a feed that posts once a day, and of one that nothing is known of yet; `least` and `most`
    bound the adaptive interval; `cap` bounds what publishers can wish for; `fixed` takes the place of the adaptive
    interval, `ttl` that of the publisher's wishes; `back_off` is the longest wait after failures; `push` is the
    interval of a feed whose news arrive by themselves (WebSub).
    """

    least: float = 300.0
    most: float = DAY
    cap: float = 2 * DAY
    fixed: float | None = None
    ttl: float | None = None
    daily: float = 1.5 * HOUR
    back_off: float = DAY
    push: float = DAY


@dataclass(frozen=True, slots=True)
class HostManners:
    """Seconds from the end of one request to a host to the start of the next, and how many may run at a time."""

    interval: float = 1.0
    concurrency: int = 1


def poll_policy(settings: InstanceSettings, url: str) -> PollPolicy:
    """What holds for the feed at the canonical `url`. A `feeds` setting counts under any spelling of the address."""
    polling = settings.polling
    own = settings.feeds.get(url)
    if own is None:
        own = next((value for key, value in settings.feeds.items() if canonical_feed_url(key) == url), None)
    bounds = PollPolicy(least=polling.min_interval, most=polling.max_interval)
    return bounds if own is None else replace(bounds, fixed=own.interval, ttl=own.ttl)


def host_manners(settings: InstanceSettings, host: str) -> HostManners:
    """What holds for `host`; a setting may name it with or without its port."""
    polling = settings.polling
    own = settings.hosts.get(host) or settings.hosts.get(host.rpartition(":")[0])
    interval = polling.host_interval if own is None or own.interval is None else own.interval
    concurrency = polling.host_concurrency if own is None or own.concurrency is None else own.concurrency
    return HostManners(interval, max(1, concurrency))
